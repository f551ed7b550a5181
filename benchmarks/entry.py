"""Where hedwig-bench begins: also without its extra, of which it then says how to install it."""

from hedwig.extras import starting

__all__ = ["main"]


def main() -> None:
    """Run hedwig-bench."""
    with starting("hedwig-bench", "benchmarks"):
        from hedwig.benchmarks.main import main as run
    run(prog_name="hedwig-bench")
