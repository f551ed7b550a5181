"""The command `hedwig-admin check health`: all that a deployment needs, one line for each, with a verdict."""

import asyncio
import sys
from collections.abc import Sequence
from typing import Final

import click

from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.deployment_options import deployment_options
from hedwig.cli.settings.setting_options import bookkeeper_setting_option
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.operations.checks.hub_checks import check_hubs
from hedwig.operations.checks.store_checks import check_store
from hedwig.operations.checks.verdicts import Finding, Verdict, exit_of
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.progress import load_progress

__all__ = ["check_health"]

_COLUMNS: Final = ("verdict", "check", "detail", "ms")
_SHOWN: Final = ("verdict", "check", "detail")


@click.command("health", cls=AdminCommand, example="hedwig-admin check health")
@deployment_options(admin="the topic's owner")
@bookkeeper_setting_option()
@click.pass_context
@pass_settings
def check_health(settings: Settings, ctx: click.Context, deployment: Deployment) -> None:
    """Look at the store, and at the hubs that use it: what each answers, with PASS, WARN, FAIL or UNKNOWN.

    The store: does it answer, is it laid out in a format that this release reads, does a compare-and-set go through (on
    a record of the store as a whole, `health-check`, that nothing else uses). A cluster: does its ZooKeeper answer, is
    every hub ready, are there bookies enough for new ledgers. Without a cluster, the standalone hub that is registered
    in the store is asked; what there is none of is SKIP.

    Exit codes: 0 all is well, 1 WARN, 2 FAIL, 3 UNKNOWN, whichever comes first in FAIL, WARN, UNKNOWN.
    """
    output = settings.writer()
    output.begin("checks", _COLUMNS, _SHOWN)
    found: list[Finding] = []
    try:
        with load_progress("checking", None, noun="checks") as progress:

            def note(finding: Finding) -> None:
                found.append(finding)
                progress.advance(1, 0)

            standalone = asyncio.run(check_store(deployment, note))
            check_hubs(deployment, standalone, note)
    finally:
        output.page([finding.fields() for finding in found])
        output.end()
    if sys.stdout.isatty():
        _say_what_is_wrong(found)
    ctx.exit(exit_of(finding.verdict for finding in found))


def _say_what_is_wrong(found: Sequence[Finding]) -> None:
    """Say in full what a table on a terminal cuts, for each finding that asks for action."""
    for finding in found:
        if finding.verdict not in (Verdict.PASS, Verdict.SKIP):
            click.echo(f"{finding.verdict} {finding.check}: {finding.detail}", err=True)
