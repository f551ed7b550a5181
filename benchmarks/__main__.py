"""Run the command from a checkout: python -m hedwig.benchmarks."""

from hedwig.benchmarks.main import main

if __name__ == "__main__":
    main(prog_name="hedwig-bench")
