"""The start of hedwig-admin. From here on Ctrl-C ends it in order, also while its modules load."""

from hedwig.cli.signals import begin_loading

__all__ = ["main"]


def main() -> None:
    """Run hedwig-admin."""
    begin_loading()
    from hedwig.extras import starting

    with starting("hedwig-admin", "cli"):
        from hedwig.cli.main import main as run
    run()
