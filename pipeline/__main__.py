"""Run the command, by `python -m hedwig.pipeline` or as the file that spark-submit is given."""

import sys

if not __package__:
    # spark-submit puts the folder of this file first on the path, and a module of ours could hide one of Python's.
    sys.path[0] = sys.path[0].rpartition("/")[0]

from hedwig.pipeline.entry import main

if __name__ == "__main__":
    main()
