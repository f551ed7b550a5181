"""The command `hedwig-admin ledger unshare`: gives topics ledgers of their own instead of those in shared logs."""

from collections import Counter
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from typing import Any, Final

import click

from hedwig.cli.arguments.names import PREFIX, TOPIC
from hedwig.cli.output.formats import Output
from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.deployment_options import deployment_options
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.cli.settings.topic_names import complete_topic
from hedwig.exit_codes import ExitCode
from hedwig.human_units import counted, size_text
from hedwig.metadata import MetadataStore, Read, RecordKey
from hedwig.metadata.contract.kinds import PERSISTENCE
from hedwig.metadata.logs.format import lower_format
from hedwig.metadata.logs.record import LogState
from hedwig.metadata.logs.references import read_references
from hedwig.metadata.migration.freeze_watch import FreezeWatch
from hedwig.model import LedgerRanges, Topic
from hedwig.names import name_fields
from hedwig.operations.checks.unreferenced import read_logs
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.hub_ledgers import open_hub_ledgers
from hedwig.operations.deployment.hub_verdicts import HubState, HubVerdicts
from hedwig.operations.deployment.store import with_store_to_load
from hedwig.operations.errors import missing_topic
from hedwig.operations.progress import LoadProgress, load_progress
from hedwig.operations.topics.unsharing import Unshared, UnshareResult, Unsharing, shared_ranges

__all__ = ["unshare_topics"]

_COLUMNS: Final = ("topic", "result", "ledgers", "messages", "message_bytes", "why")
_PAGE: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """Which topics: those named, else those that begin with a prefix, b"" for all."""

    topics: Sequence[Topic]
    prefix: bytes


@click.command("unshare", cls=AdminCommand, example="hedwig-admin ledger unshare --all --dry-run")
@click.argument("topics", nargs=-1, type=TOPIC, metavar="[TOPIC]...", shell_complete=complete_topic)
@click.option("--prefix", type=PREFIX, metavar="P", help="All topics whose names begin with P.")
@click.option("--all", "everything", is_flag=True, help="All topics.")
@click.option("--dry-run", is_flag=True, help="Show what would be copied, and change nothing.")
@deployment_options(admin="the topics' owner", ledgers=True)
@pass_settings
def unshare_topics(
    settings: Settings,
    /,
    topics: Sequence[Topic],
    prefix: bytes | None,
    everything: bool,
    dry_run: bool,
    deployment: Deployment,
) -> int:
    """Copy the messages that topics have in shared logs into ledgers of their own: the way back from shared logs.

    First set bookkeeper.ledgers to per-topic on all hubs, and start them again. The owner of a topic releases it, and
    its clients subscribe again. The record of the topic names the copies only once all of them are complete. The
    command may be interrupted, and given again. With --all it also says when original hubs may use the store.

    Exit codes: 0 all is done, 1 some topics are left as they were; the rows say why.
    """
    if sum((bool(topics), prefix is not None, everything)) != 1:
        raise click.UsageError("give TOPIC, --prefix or --all")
    wanted = _Wanted(topics=list(dict.fromkeys(topics)), prefix=prefix or b"")
    output = settings.writer()

    async def work(store: MetadataStore, watch: FreezeWatch) -> int:
        for topic in wanted.topics:
            if await store.persistence.read(topic) is None:
                raise missing_topic(topic)
        left = await _unshare(output, deployment, store, watch, wanted, is_dry=dry_run)
        if everything and not dry_run:
            await _say_what_is_left(store, watch)
        return ExitCode.FAILED if left else 0

    return with_store_to_load(settings.deployment, work, makes=False)


async def _unshare(
    output: Output,
    deployment: Deployment,
    store: MetadataStore,
    watch: FreezeWatch,
    wanted: _Wanted,
    *,
    is_dry: bool,
) -> int:
    """Unshare topics, and return how many are left as they were."""
    totals: Counter[str] = Counter()
    async with AsyncExitStack() as stack:
        progress = stack.enter_context(load_progress("unsharing", None, noun="topics"))
        unsharing: Unsharing | None = None
        if not is_dry:
            ledgers = await stack.enter_async_context(open_hub_ledgers(deployment, store))
            await _warn_of_writers(deployment, store)
            unsharing = Unsharing(deployment, store, watch, ledgers, progress.say)
        output.begin("topics", _COLUMNS, _COLUMNS)
        async with aclosing(_pages(store, wanted)) as pages:
            async for page in pages:
                named = [topic for topic, _ in page]
                done = _planned(page) if unsharing is None else await unsharing.unshare(named)
                _write(output, done, progress, totals, is_dry=is_dry)
    output.end()
    does = "would unshare" if is_dry else "unshared"
    click.echo(
        f"{does} {counted(totals['unshared'], 'topic')}: {counted(totals['messages'], 'message')} in "
        f"{counted(totals['ledgers'], 'ledger')}, {size_text(totals['message_bytes'])}; left: {totals['left']:,}",
        err=True,
    )
    return totals["left"]


async def _pages(store: MetadataStore, wanted: _Wanted) -> AsyncGenerator[list[tuple[Topic, LedgerRanges | None]]]:
    """Yield the topics that have messages in shared logs, with their ranges, and all that were named."""
    page: list[tuple[Topic, LedgerRanges | None]] = []
    async with aclosing(_scanned(store, wanted)) as scanned:
        async for topic, ranges in scanned:
            page.append((topic, ranges))
            if len(page) == _PAGE:
                yield page
                page = []
    if page:
        yield page


async def _scanned(store: MetadataStore, wanted: _Wanted) -> AsyncGenerator[tuple[Topic, LedgerRanges | None]]:
    if wanted.topics:
        outcomes = await store.persistence.apply([Read(RecordKey(topic)) for topic in wanted.topics])
        for topic, outcome in zip(wanted.topics, outcomes, strict=True):
            yield topic, None if outcome.record is None else outcome.record.value
        return
    async with aclosing(store.scan(wanted.prefix or None, kinds=(PERSISTENCE,))) as pages:
        async for page in pages:
            for item in page:
                if item.error is not None:
                    yield item.key.topic, None  # Its record cannot be read, so it is left.
                elif shared_ranges(item.read().value):
                    yield item.key.topic, item.read().value


def _planned(page: Collection[tuple[Topic, LedgerRanges | None]]) -> list[Unshared]:
    """Return what would be done, as far as the records say it."""
    plans = []
    for topic, ranges in page:
        if ranges is None:
            plans.append(Unshared(topic=topic, result=UnshareResult.LEFT, why="its record cannot be read"))
            continue
        shared = shared_ranges(ranges)
        messages = sum(each.end.local - each.start + 1 for each in shared if each.end and each.start)
        result = UnshareResult.UNSHARED if shared else UnshareResult.UNCHANGED
        plans.append(Unshared(topic=topic, result=result, ledgers=len(shared), messages=messages))
    return plans


def _write(
    output: Output, done: Sequence[Unshared], progress: LoadProgress, totals: Counter[str], *, is_dry: bool
) -> None:
    output.page([_row(each, is_dry=is_dry) for each in done])
    progress.advance(len(done), 0)
    totals.update(str(each.result) for each in done)
    for field in ("ledgers", "messages", "message_bytes"):
        totals[field] += sum(getattr(each, field) for each in done)


def _row(each: Unshared, *, is_dry: bool) -> dict[str, Any]:
    would = is_dry and each.result is UnshareResult.UNSHARED
    return name_fields(each.topic) | {
        "result": "would unshare" if would else str(each.result),
        "ledgers": each.ledgers,
        "messages": each.messages,
        "message_bytes": None if is_dry else each.message_bytes,
        "why": each.why,
    }


async def _warn_of_writers(deployment: Deployment, store: MetadataStore) -> None:
    """Name the living hubs that write shared logs, into which topics come back."""
    logs = [log async for log in read_logs(store) if log.state is LogState.OPEN]
    states = await HubVerdicts(deployment, store).of_all(log.hub for log in logs)
    writers = sorted({log.hub.name for log in logs if states[log.hub.address, log.hub.epoch] is HubState.ALIVE})
    if writers:
        click.echo(
            f"{', '.join(writers)} {'writes a shared log' if len(writers) == 1 else 'write shared logs'}, so topics "
            "come back there: set bookkeeper.ledgers to per-topic, and start the hub again",
            err=True,
        )


async def _say_what_is_left(store: MetadataStore, watch: FreezeWatch) -> None:
    references = await read_references(store)
    if references.logs:
        ranges = "ranges of topics" if references.slots else "the owner records of topics"
        click.echo(
            f"{ranges} still name {counted(len(references.logs), 'shared log')}: give the command again; to delete the "
            "owner records of dead hubs: hedwig-admin metadata repair --kind dead-owner",
            err=True,
        )
    elif [log async for log in read_logs(store)]:
        click.echo(
            "nothing refers to a shared log any more, and the hubs delete the logs within three hours. Once "
            "hedwig-admin ledger logs lists none, give this command again: then original hubs and those of older "
            "releases may use the store",
            err=True,
        )
    elif await watch.carry_out(lambda: lower_format(store)):
        click.echo("there is no shared log: original hubs and those of older releases may use the store", err=True)
