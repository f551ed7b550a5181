"""Run the command: python -m pipeline, and what spark-submit is given."""

from pipeline.main import main

if __name__ == "__main__":
    main()
