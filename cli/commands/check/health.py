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
from hedwig.operations.checks.verdicts import CheckResult, CheckStatus, exit_of
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
    """Check the store and the hubs that use it; each check ends in PASS, WARN, FAIL or UNKNOWN.

    The store must answer, have a format that this release reads, and accept a compare-and-set. That is tried on the
    record `health-check` of the store as a whole, which nothing else uses. Of a cluster, ZooKeeper must answer, every
    hub must be ready, and there must be enough bookies for new ledgers. Without a cluster, the command asks the
    standalone hub that is registered in the store. A check of something that the deployment does not have is SKIP.

    Exit codes: 0 all is well, 1 WARN, 2 FAIL, 3 UNKNOWN. Of several, FAIL counts before WARN, and WARN before UNKNOWN.
    """
    output = settings.writer()
    output.begin("checks", _COLUMNS, _SHOWN)
    findings: list[CheckResult] = []
    try:
        with load_progress("checking", None, noun="checks") as progress:

            def note(finding: CheckResult) -> None:
                findings.append(finding)
                progress.advance(1, 0)

            standalone = asyncio.run(check_store(deployment, note))
            check_hubs(deployment, standalone, note)
    finally:
        output.page([finding.fields() for finding in findings])
        output.end()
    if sys.stdout.isatty():
        _say_what_is_wrong(findings)
    ctx.exit(exit_of(finding.verdict for finding in findings))


def _say_what_is_wrong(findings: Sequence[CheckResult]) -> None:
    """Say in full what a table on a terminal cuts, for each finding that asks for action."""
    for finding in findings:
        if finding.verdict not in (CheckStatus.PASS, CheckStatus.SKIP):
            click.echo(f"{finding.verdict} {finding.check}: {finding.detail}", err=True)
