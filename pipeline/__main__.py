"""Run the command: python -m pipeline, and what spark-submit is given."""

import sys

if not __package__:
    # Given to spark-submit, a file has its own folder first on the path, where our statistics.py hides Python's.
    sys.path[0] = sys.path[0].rpartition("/")[0]

from hedwig.pipeline.entry import main

if __name__ == "__main__":
    main()
