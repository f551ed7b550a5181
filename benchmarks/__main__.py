"""Run the command from a checkout: python -m benchmarks."""

from benchmarks.main import main

if __name__ == "__main__":
    main(prog_name="hedwig-bench")
