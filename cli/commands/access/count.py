"""The command `hedwig-admin access count`: how many topics and subscriptions there are, where limits say how many."""

import time
from datetime import UTC, datetime
from typing import Final

import click

from hedwig.cli.arguments.names import CheckedName
from hedwig.cli.arguments.selection import Selection, cut, list_options
from hedwig.cli.output.formats import Row
from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.metadata import MetadataStore
from hedwig.metadata.access.count_records import Count, CountKey, CountRecords, count_of
from hedwig.model import HubInfo
from hedwig.operations.deployment.hub_verdicts import HubState, HubVerdicts
from hedwig.operations.deployment.store import with_store, with_store_to_write
from hedwig.operations.progress import load_progress

__all__ = ["count"]

_COLUMNS: Final = ("counted", "topics", "number", "leased", "counted_at")
_AFTER: Final = CheckedName("count", lambda text: text.encode())


@click.command("count", cls=AdminCommand, example="hedwig-admin access count")
@click.option("--anew", is_flag=True, help="Count what there is, and let hubs go by that.")
@list_options(_AFTER)
@pass_settings
def count(settings: Settings, /, anew: bool, selection: Selection) -> None:
    """List how many topics and subscriptions there are, where a limit says how many there may be.

    `number` is how many there are at most, with those that hubs may still make without asking (`leased`). What was
    deleted elsewhere stays in it until somebody counts anew. Hubs do so when a limit is reached, every ten minutes.
    """
    output = settings.writer()
    deployment = settings.deployment

    async def read(store: MetadataStore) -> None:
        counts = CountRecords(store.named_records)
        found = {str(key).encode(): (key, number) for key, number in (await counts.all()).items()}
        output.begin("counts", _COLUMNS, _COLUMNS)
        selected, token = cut(selection, "counts", found.items(), lambda row: row[0])
        rows = [row for _, row in selected]
        if anew:
            verdicts = HubVerdicts(deployment, store)

            async def may_be_alive(hub: HubInfo) -> bool:
                return await verdicts.of(hub) is not HubState.DEAD

            with load_progress("counting", None, noun="records") as progress:

                async def counted(key: CountKey) -> Count:
                    def advance(records: int) -> None:
                        progress.advance(records, 0)

                    return await counts.count_anew(
                        key, lambda: count_of(store, key, advance), may_be_alive, time.time()
                    )

                rows = [(key, await counted(key)) for key, _ in rows]
        output.page([_fields(key, number) for key, number in rows])
        output.end(token)

    (with_store_to_write if anew else with_store)(deployment, read)


def _fields(key: CountKey, number: Count) -> Row:
    at = datetime.fromtimestamp(number.counted_at, UTC).isoformat().replace("+00:00", "Z")
    return {
        "counted": str(key.counted),
        "topics": str(key.topics),
        "number": number.number,
        "leased": sum(number.leases.values()),
        "counted_at": at,
    }
