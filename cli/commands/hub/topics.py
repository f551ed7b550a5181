"""The command `hedwig-admin hub topics`: which topics a hub owns, alive or dead."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

import click

from hedwig.cli.arguments.names import TOPIC
from hedwig.cli.arguments.selection import Selection, list_options
from hedwig.cli.output.formats import Output
from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.hub_names import complete_hub
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.metadata import MetadataStore
from hedwig.metadata.contract.kinds import OWNERSHIP
from hedwig.model import HubInfo, Topic
from hedwig.names import name_fields
from hedwig.operations.deployment.store import with_store
from hedwig.operations.progress import LoadProgress, listing_progress

__all__ = ["list_topics_of_hub"]

_COLUMNS: Final = ("topic", "hub", "epoch", "log")
_SHOWN: Final = ("topic", "epoch")
_PAGE_ROWS: Final = 500


@click.command(
    "topics",
    cls=AdminCommand,
    example="hedwig-admin hub topics 127.0.0.1:4080 --metadata zookeeper://127.0.0.1:2181/hedwig/standalone",
)
@click.argument("hub", metavar="HUB", shell_complete=complete_hub)
@list_options(TOPIC)
@pass_settings
def list_topics_of_hub(settings: Settings, /, hub: str, selection: Selection) -> None:
    """List the topics whose owner record names the hub at HUB, host:port, in the order of the store.

    The hub may be dead: then these are the topics that nobody has taken over yet. Each start of a hub has an epoch of
    its own. The command reads the owner records of all topics, or of those that begin with --prefix.
    """
    owner = HubInfo.at(hub)
    output = settings.writer()

    async def list_them(store: MetadataStore) -> None:
        await _write_listing(store, owner.name, selection, output)

    with_store(settings.deployment, list_them)


async def _write_listing(store: MetadataStore, owner: str, selection: Selection, output: Output) -> None:
    """Write the topics page by page, with one page in memory."""
    listing = f"topics of {owner} {store.url.text}"
    start, most = selection.start(listing), selection.names_max
    output.begin("topics", _COLUMNS, _SHOWN)
    token, written = None, 0
    page: list[dict[str, Any]] = []
    last = b""
    with listing_progress("topics") as progress:
        async with aclosing(_owned(store, owner, selection.prefix, start, progress)) as found:
            async for topic, record in found:
                if written == most:
                    token = selection.token(listing, last)
                    break
                page.append({**name_fields(topic), "hub": record.name, "epoch": record.epoch, "log": record.log})
                last, written = topic, written + 1
                if len(page) == _PAGE_ROWS:
                    output.page(page)
                    page = []
    output.page(page)
    output.end(token)


async def _owned(
    store: MetadataStore, owner: str, prefix: bytes | None, start: bytes | None, progress: LoadProgress
) -> AsyncGenerator[tuple[Topic, HubInfo], None]:
    after = None if start is None else Topic(start)
    async with aclosing(store.scan(prefix, after, kinds=[OWNERSHIP])) as pages:
        async for page in pages:
            for each in page:
                record: HubInfo = each.read().value
                if record.name == owner:
                    yield each.key.topic, record
            progress.advance(len(page), 0)
