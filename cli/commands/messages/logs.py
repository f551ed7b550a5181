"""The commands `hedwig-admin ledger logs` and `ledger unreferenced`: the shared logs of hubs."""

from contextlib import AsyncExitStack
from typing import Any, Final

import click

from hedwig.cli.arguments.names import CheckedName
from hedwig.cli.arguments.selection import Selection, cut, list_options
from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.deployment_options import deployment_options
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.human_units import counted, size_text
from hedwig.metadata import MetadataStore
from hedwig.metadata.logs.record import LogRecord
from hedwig.operations.checks.unreferenced import SegmentUse, UnreferencedSlots, look_at_logs
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.hub_verdicts import HubState, HubVerdicts
from hedwig.operations.deployment.ledgers import open_ledgers
from hedwig.operations.deployment.store import with_store
from hedwig.operations.progress import working

__all__ = ["list_logs", "show_unreferenced"]

_COLUMNS: Final = (
    "log",
    "hub",
    "epoch",
    "hub_state",
    "state",
    "segments",
    "messages",
    "message_bytes",
    "listed",
    "dropped",
    "error",
)
_SHOWN: Final = ("log", "hub", "hub_state", "state", "segments", "message_bytes", "listed")
_USE_COLUMNS: Final = (
    "log",
    "ledger_id",
    "slots",
    "unreferenced_slots",
    "message_bytes",
    "unreferenced_bytes",
    "lost",
)
_USE_SHOWN: Final = _USE_COLUMNS[:-1]
_LOG: Final = CheckedName("log", lambda text: b"%010d" % int(text))


@click.command("logs", cls=AdminCommand, example="hedwig-admin ledger logs")
@list_options(_LOG, with_prefix=False)
@deployment_options()
@pass_settings
def list_logs(settings: Settings, /, selection: Selection, deployment: Deployment) -> None:
    """List the shared logs: which hub writes each, whether that hub is alive, and what the log consists of.

    An `open` log takes messages. A `closed` one is only read: its hub ended, or another hub took its topics over. One
    that is `fenced` is about to be closed. The hubs delete a closed log once nothing refers to it. Of one that is
    `unreadable`, the record is damaged, and no hub can open the topics that have messages in it.
    """
    output = settings.writer()

    async def write(store: MetadataStore) -> None:
        verdicts = HubVerdicts(deployment, store)
        logs = [each async for each in look_at_logs(store)]
        shown, token = cut(selection, f"logs {store.url.text}", logs, lambda each: b"%010d" % each[0])
        states = await verdicts.of_all(found.hub for _, found in shown if isinstance(found, LogRecord))
        output.begin("logs", _COLUMNS, _SHOWN)
        output.page(
            [
                _row(found, states[found.hub.address, found.hub.epoch])
                if isinstance(found, LogRecord)
                else {**dict.fromkeys(_COLUMNS), "log": number, "state": "unreadable", "error": str(found)}
                for number, found in shown
            ]
        )
        output.end(token)
        for _, found in shown:
            if not isinstance(found, LogRecord):
                click.echo(str(found), err=True)
        if HubState.UNKNOWN in states.values():
            click.echo(f"it is not known which hubs are alive: {verdicts.why_unknown}", err=True)

    with_store(settings.deployment, write)


@click.command("unreferenced", cls=AdminCommand, example="hedwig-admin ledger unreferenced")
@deployment_options(ledgers=True)
@pass_settings
def show_unreferenced(settings: Settings, /, deployment: Deployment) -> None:
    """Show what no topic refers to in each segment of the shared logs, and change nothing.

    One hub frees it each hour, unless a second reading finds that a topic refers to it after all. It deletes the
    segments of which nothing is left, and merges others when that frees enough. This command reads all owners and
    ranges of topics, and the footers of all segments.
    """
    output = settings.writer()

    async def write(store: MetadataStore) -> None:
        async with AsyncExitStack() as stack:
            async with working("reading what topics refer to"):
                unreferenced = await UnreferencedSlots.read(store)
            output.begin("segments", _USE_COLUMNS, _USE_SHOWN)
            size = free = 0
            if any(log.segments for log in unreferenced.logs):
                inspector, _ = await stack.enter_async_context(open_ledgers(deployment))
                async for use in unreferenced.segments(inspector):
                    size += use.segment.size
                    free += use.unreferenced_bytes or 0
                    output.page([_use_row(use)])
            output.end()
        removable = unreferenced.removable
        logs = f"; nothing refers to {counted(len(removable), 'closed log')}" if removable else ""
        click.echo(f"no topic refers to {size_text(free)} of {size_text(size)}{logs}", err=True)

    with_store(settings.deployment, write)


def _row(log: LogRecord, state: HubState) -> dict[str, Any]:
    return {
        "log": log.number,
        "hub": log.hub.name,
        "epoch": log.hub.epoch,
        "hub_state": str(state),
        "state": log.state.value,
        "segments": len(log.segments),
        "messages": sum(each.records for each in log.segments),
        "message_bytes": sum(each.size for each in log.segments),
        "listed": list(log.listed),
        "dropped": [each.ledger for each in log.dropped],
        "error": None,
    }


def _use_row(use: SegmentUse) -> dict[str, Any]:
    return {
        "log": use.log,
        "ledger_id": use.segment.ledger,
        "slots": use.slots,
        "unreferenced_slots": use.unreferenced_slots,
        "message_bytes": use.segment.size,
        "unreferenced_bytes": use.unreferenced_bytes,
        "lost": use.lost,
    }
