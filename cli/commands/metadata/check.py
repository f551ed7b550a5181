"""The command `hedwig-admin metadata check`: errors in the metadata, and in the ledgers that they name."""

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import click

from hedwig.cli.arguments.names import PREFIX
from hedwig.cli.arguments.option_group import option_group
from hedwig.cli.commands.metadata.finding_fields import COLUMNS, finding_fields
from hedwig.cli.commands.metadata.frozen import say_if_frozen
from hedwig.cli.output.formats import Output
from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.deployment_options import deployment_options
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.errors import ConfigurationError, HedwigError, OperationError
from hedwig.exit_codes import ExitCode
from hedwig.human_units import counted
from hedwig.metadata import MetadataStore, open_metadata
from hedwig.metadata.bulk.findings import FindingKind
from hedwig.operations.checks.ledger_census import KnownLedgers, open_known_ledgers
from hedwig.operations.checks.reported import WHY, Reported, Severity
from hedwig.operations.checks.store_check import StoreCheck
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.hub_verdicts import HubVerdicts
from hedwig.operations.errors import explain
from hedwig.operations.progress import load_progress

__all__ = ["CheckOptions", "Surroundings", "check_options", "check_store", "limited", "surroundings", "tell_unchecked"]

_SHOWN: Final = ("severity", "kind", "topic", "what")
_WITHOUT_LEDGERS: Final = frozenset(
    {
        FindingKind.DEAD_OWNER,
        FindingKind.LONE_SUBSCRIPTION,
        FindingKind.STRAY_INDEX_ENTRY,
        FindingKind.UNINDEXED_SUBSCRIPTION,
        FindingKind.UNREADABLE_RECORD,
    }
)
_UNKNOWN: Final = ExitCode(3)
"""The exit code of a check that could not look, for any reason. 1 and 2 say that it has found something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """What a check looks for, on which topics, and the maximum number of findings."""

    kinds: Collection[FindingKind]
    prefix: bytes | None
    limit: int | None

    @property
    def is_any_named(self) -> bool:
        return bool(self.kinds)


def check_options() -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the options of a check. The command gets them as `options`."""
    options = (
        click.option(
            "--kind",
            "kinds",
            multiple=True,
            type=click.Choice([kind.value for kind in FindingKind]),
            metavar="KIND",
            help=f"Only findings of this kind; may be given again: {', '.join(FindingKind)}.",
        ),
        click.option("--prefix", type=PREFIX, metavar="P", help="Only topics whose names begin with P."),
        click.option("--limit", type=click.IntRange(min=1), help="Maximum number of findings.  [default: no limit]"),
    )

    def gather(params: Mapping[str, Any]) -> CheckOptions:
        kinds = tuple(FindingKind(kind) for kind in params["kinds"])
        return CheckOptions(kinds=kinds, prefix=params["prefix"], limit=params["limit"])

    return option_group("options", options, ("kinds", "prefix", "limit"), gather)


@click.command("check", cls=AdminCommand, example="hedwig-admin metadata check")
@check_options()
@deployment_options(ledgers=True)
@pass_settings
def check_store(settings: Settings, /, options: CheckOptions, deployment: Deployment) -> int:
    """Find what is wrong with the records of a store, and with the ledgers that they name; change nothing.

    Hubs may run meanwhile. Each finding says what it is, why it matters, and what `metadata repair` would do. To know
    dead owners, the command needs the registry of the hubs (--cluster). To check ledgers, it needs access to them
    (--data, --bookkeeper). It names what it could not check.

    Exit codes: 0 nothing is wrong, 1 warnings, 2 something is critical, 3 it could not be checked.
    """
    output = settings.writer()
    try:
        return asyncio.run(_check(output, options, deployment))
    except OperationError as exc:
        raise OperationError(str(exc), _UNKNOWN) from exc
    except HedwigError as exc:
        said = f"{settings.command} failed: {explain(exc, deployment.url_to_show)}"
        raise OperationError(said, _UNKNOWN) from exc


async def _check(output: Output, options: CheckOptions, deployment: Deployment) -> int:
    severities: Counter[Severity] = Counter()
    kinds: Counter[FindingKind] = Counter()
    wanted = options.kinds or tuple(FindingKind)
    async with surroundings(deployment, wanted) as around:
        await say_if_frozen(deployment, around.store)
        output.begin("findings", COLUMNS, _SHOWN)
        with load_progress("checking", None, noun="records", is_shared=sys.stdout.isatty()) as progress:
            check = around.check(wanted, options.prefix, lambda records: progress.advance(records, 0))
            async with aclosing(limited(check, options.limit)) as pages:
                async for page in pages:
                    output.page([finding_fields(reported) for reported in page])
                    severities.update(reported.severity for reported in page)
                    kinds.update(reported.finding.kind for reported in page)
    output.end()
    for kind, number in kinds.items():
        click.echo(f"{kind}, {number:,}: {WHY[kind]}", err=True)
    tell_unchecked(check)
    words = ", ".join(
        counted(severities[severity], noun)
        for severity, noun in ((Severity.CRITICAL, "critical finding"), (Severity.WARNING, "warning"))
    )
    notes = f", {counted(severities[Severity.NOTE], 'note')}" if severities[Severity.NOTE] else ""
    click.echo(f"checked {counted(check.records, 'record')}: {words}{notes}", err=True)
    if options.limit is not None and kinds.total() == options.limit:
        click.echo(f"stopped after {counted(options.limit, 'finding')}: there may be more", err=True)
    return _verdict(severities, is_incomplete=options.is_any_named and bool(check.unchecked))


def _verdict(severities: Mapping[Severity, int], *, is_incomplete: bool) -> int:
    """Return the exit code. A kind that the user named, and that could not be checked, counts as unknown."""
    if severities[Severity.CRITICAL]:
        return int(Severity.CRITICAL)
    if is_incomplete:
        return int(_UNKNOWN)
    return int(Severity.WARNING) if severities[Severity.WARNING] else 0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a check looks at: the store, its hubs and its ledgers, or the reason why these are not known."""

    store: MetadataStore
    verdicts: HubVerdicts
    known: KnownLedgers | str

    def check(
        self, wanted: Collection[FindingKind], prefix: bytes | None, advance: Callable[[int], None]
    ) -> StoreCheck:
        """Return a new check."""
        return StoreCheck(self.store, self.verdicts, self.known, wanted, prefix, advance)

    @property
    def local(self) -> KnownLedgers | None:
        """Return the ledgers, if they are in the data directory of a standalone hub."""
        return None if isinstance(self.known, str) or self.known.is_shared else self.known


@asynccontextmanager
async def surroundings(deployment: Deployment, wanted: Collection[FindingKind]) -> AsyncIterator[Surroundings]:
    """Open all that a check for the kinds `wanted` needs.

    Raises: OperationError, ConfigurationError - something is not where the user said; as `open_metadata`.
    """
    async with (
        await open_metadata(deployment.url, deployment.options_to_look()) as store,
        open_known_ledgers(deployment, is_wanted=not _WITHOUT_LEDGERS.issuperset(wanted)) as known,
    ):
        await _check_together(deployment, store, known)
        yield Surroundings(store, HubVerdicts(deployment, store), known)


async def _check_together(deployment: Deployment, store: MetadataStore, known: KnownLedgers | str) -> None:
    """Raise ConfigurationError if the ledgers are those of another standalone hub."""
    if isinstance(known, str) or known.hub_id is None:
        return
    standalone = await store.standalone_hub()
    if standalone is not None and standalone.hub_id != known.hub_id:
        raise ConfigurationError(
            f"the ledgers in {known.where} are of the hub {known.hub_id}, but the hub {standalone.hub_id} uses "
            f"{deployment.url_to_show}; name the data directory of that hub with --data DIR"
        )


async def limited(check: StoreCheck, limit: int | None) -> AsyncGenerator[list[Reported], None]:
    """Iterate over the findings of a check, at most `limit`."""
    left = sys.maxsize if limit is None else limit
    async with aclosing(check.findings()) as pages:
        async for page in pages:
            yield page[:left]
            left -= len(page)
            if left <= 0:
                return


def tell_unchecked(check: StoreCheck) -> None:
    """Report on standard error what the check could not look for, and why."""
    reasons: dict[str, list[str]] = {}
    for kind, why in check.unchecked.items():
        reasons.setdefault(why, []).append(kind.value)
    for why, kinds in reasons.items():
        click.echo(f"not checked: {', '.join(kinds)}: {why}", err=True)
