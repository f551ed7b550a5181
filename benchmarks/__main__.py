"""Run the command from a checkout: python -m hedwig.benchmarks."""

from hedwig.benchmarks.entry import main

if __name__ == "__main__":
    main()
