"""The demonstration that ./run gives: the embedded metadata service, on this machine, without any server."""

import asyncio
import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import click

from hedwig.errors import BadVersionError, TopicOwnerInfoExistsError
from hedwig.model import HubInfo, MessageSeqId, SubscriberId, SubscriptionData, SubscriptionState, Topic
from hedwig.names import show_name
from hedwig.versions import NEW, Version, Versioned
from metadata import MetadataStore, RecordKey, open_metadata
from metadata.bulk import TopicCreator

__all__ = ["main"]

_TOPICS: Final = tuple(RecordKey(Topic(name)) for name in (b"news", b"weather/alpine", b"weather/coast"))
_TOPIC: Final = _TOPICS[0].topic
_SUBSCRIBER: Final = SubscriberId(b"reader")
_HUBS: Final = (
    HubInfo(host="hub-a.example", port=4080, epoch=1),
    HubInfo(host="hub-b.example", port=4080, epoch=1),
)


@click.command(epilog="Example: ./run --directory /tmp/hedwig-demo")
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where to keep the demonstration's store; must not hold one.  [default: a new temporary directory]",
)
def main(directory: Path | None) -> None:
    """Show what Hedwig's metadata service does, on a SQLite file of its own."""
    place = directory or Path(tempfile.mkdtemp(prefix="hedwig-demo-"))
    place.mkdir(parents=True, exist_ok=True)
    file = (place / "metadata.db").resolve()
    if file.exists():
        raise click.ClickException(f"{file} exists; the demonstration needs a directory without a store")
    asyncio.run(_demonstrate(f"sqlite://{quote(str(file))}"))


async def _demonstrate(url: str) -> None:
    _say("Hedwig keeps who owns a topic, where its messages lie, and how far each subscriber has come.")
    _say("Every change is a compare-and-set. Here is that, on an embedded store:", url)
    # Two clients, as two hubs have: what they agree on, they agree on through the file alone.
    async with await open_metadata(url) as store, await open_metadata(url) as other:
        await _create_topics(store)
        await _race_for_a_topic(store, other)
        version = await _move_a_consume_pointer(store)
        await _refuse_a_stale_version(other, version)
        counts = await store.count()
    _step("What the store holds now")
    _say(", ".join(f"{number} {kind}" for kind, number in counts.items()))
    _step("Try next")
    program = _program()
    for arguments in (f"topic show {show_name(_TOPIC)}", "topic list --columns topic,owner,version"):
        click.echo(f"  {program} {arguments} --metadata {shlex.quote(url)}")


async def _create_topics(store: MetadataStore) -> None:
    _step("Create topics")
    outcomes = await TopicCreator(store).create(_TOPICS)
    for key, outcome in zip(_TOPICS, outcomes, strict=True):
        _say(f"{show_name(key.topic)}: {outcome.result.value}")


async def _race_for_a_topic(store: MetadataStore, other: MetadataStore) -> None:
    _step(f"Two hubs claim the topic {show_name(_TOPIC)!r} at the same moment")
    stores = (store, other)
    claims: Sequence[Version | BaseException] = await asyncio.gather(
        *(each.ownership.write_owner_info(_TOPIC, hub, NEW) for each, hub in zip(stores, _HUBS, strict=True)),
        return_exceptions=True,
    )
    for hub, claim in zip(_HUBS, claims, strict=True):
        match claim:
            case Version():
                _say(f"{hub.host} wins: it owns the topic, at version {claim}")
            case TopicOwnerInfoExistsError(current=current) if current is not None:
                _say(f"{hub.host} is told: the owner is {current.value.host}, so it redirects its clients there")
            case BaseException():
                raise claim


async def _move_a_consume_pointer(store: MetadataStore) -> Version:
    """Subscribe and consume; return the version of the subscription before the pointer moved."""
    _step(f"{show_name(_SUBSCRIBER)!r} subscribes and consumes")
    subscriptions = store.subscriptions
    created = await subscriptions.create_subscription_data(_TOPIC, _SUBSCRIBER, _consumed(0))
    _say(f"subscribed, at version {created}")
    moved = await subscriptions.update_subscription_data(_TOPIC, _SUBSCRIBER, _consumed(42), created)
    _say(f"consume pointer moved from 0 to 42, at version {moved}")
    return created


async def _refuse_a_stale_version(store: MetadataStore, stale: Version) -> None:
    _step("A hub that slept through this writes with the version that it remembers")
    current = await _refusal(store, stale)
    _say(f"refused: the consume pointer stays at {current.value.state.consumed.local}")


async def _refusal(store: MetadataStore, stale: Version) -> Versioned[Any]:
    """Write with a stale version, and return the record that stands instead."""
    try:
        await store.subscriptions.update_subscription_data(_TOPIC, _SUBSCRIBER, _consumed(7), stale)
    except BadVersionError as refusal:
        if refusal.current is not None:
            return refusal.current
    raise AssertionError("a stale version must be refused, with the record that stands")


def _consumed(message: int) -> SubscriptionData:
    return SubscriptionData(state=SubscriptionState(MessageSeqId(message)))


def _step(title: str) -> None:
    click.secho(f"\n{title}", bold=True)


def _say(*lines: str) -> None:
    for line in lines:
        click.echo(f"  {line}")


def _program() -> str:
    """Return how this user calls hedwig-admin: it is on the path, or beside the interpreter."""
    beside = Path(sys.executable).with_name("hedwig-admin")
    if shutil.which("hedwig-admin") or not beside.exists():
        return "hedwig-admin"
    here = Path.cwd()
    return shlex.quote(str(beside.relative_to(here) if beside.is_relative_to(here) else beside))


if __name__ == "__main__":
    main()
