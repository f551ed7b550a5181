"""The entry point of hedwig-bench. Without its extra it says how to install that."""

from hedwig.extras import starting

__all__ = ["main"]


def main() -> None:
    """Run hedwig-bench."""
    with starting("hedwig-bench", "benchmarks"):
        from hedwig.benchmarks.main import main as run
    run(prog_name="hedwig-bench")
