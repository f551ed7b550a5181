"""The commands `hedwig-admin check …`: whether a deployment is healthy, and whether a store is good enough."""

import click

from hedwig.cli.commands.check.health import check_health
from hedwig.cli.commands.check.perf import check_perf
from hedwig.cli.program import AdminGroup

__all__ = ["check"]


@click.group(cls=AdminGroup, example="hedwig-admin check health")
def check() -> None:
    """Check whether a deployment is healthy, and whether a store is good enough for one.

    Exit codes, as monitoring systems read them: 0 ok, 1 warning, 2 critical, 3 unknown. A wrong command line is 2, as
    everywhere.
    """


for command in (check_health, check_perf):
    check.add_command(command)
