"""The hedwig-admin command."""

import click

__all__ = ["main"]


@click.group(epilog="Example: hedwig-admin --version")
@click.version_option(package_name="hedwig", prog_name="hedwig-admin")
def main() -> None:
    """Operate Hedwig: its metadata, topics, subscriptions and servers."""
