"""The command `hedwig-admin ledger delete-orphans`: the repair of the one finding that is only about ledgers."""

from collections.abc import Mapping
from typing import Any

import click

from hedwig.cli.arguments.names import PREFIX
from hedwig.cli.arguments.option_group import option_group
from hedwig.cli.commands.metadata.check import CheckOptions
from hedwig.cli.commands.metadata.repair import repair
from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.deployment_options import deployment_options
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.metadata.bulk.findings import FindingKind
from hedwig.operations.deployment.deployment import Deployment

__all__ = ["delete_orphans"]


def _gather(params: Mapping[str, Any]) -> CheckOptions:
    return CheckOptions(kinds=(FindingKind.ORPHAN_LEDGER,), prefix=params["prefix"], limit=params["limit"])


_orphan_options = option_group(
    "options",
    (
        click.option("--prefix", type=PREFIX, metavar="P", help="Only ledgers of topics whose names begin with P."),
        click.option("--limit", type=click.IntRange(min=1), help="Maximum number of ledgers.  [default: no limit]"),
    ),
    ("prefix", "limit"),
    _gather,
)


@click.command("delete-orphans", cls=AdminCommand, example="hedwig-admin ledger delete-orphans --dry-run")
@_orphan_options
@deployment_options(admin="the standalone hub", ledgers=True)
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_settings
def delete_orphans(
    settings: Settings,
    /,
    options: CheckOptions,
    deployment: Deployment,
    dry_run: bool,
    yes: bool,
) -> None:
    """Delete the ledgers of this deployment that no topic refers to; hubs may run meanwhile.

    This is `metadata repair --kind orphan-ledger`. It deletes only ledgers that carry the mark of this deployment, are
    older than an hour, and are unreferenced at a second look. It shows the others, and leaves them. A standalone hub
    that runs deletes the ledgers in its data directory itself. One that does not run cannot start meanwhile.
    """
    repair(settings, options, deployment, dry_run=dry_run, yes=yes)
