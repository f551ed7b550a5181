"""Prove that the format of a store is raised for all clients, and lowered only while it has no shared log."""

import asyncio
import secrets

from hedwig.metadata import MetadataStore, read_layout
from hedwig.metadata.contract.layout import FORMAT_MAJOR, LOGS_PREFIX, SHARED_LOGS_MAJOR
from hedwig.metadata.testing.clients import Clients
from hedwig.metadata.testing.subject import Subject

ROUNDS = 10


async def _format(subject: Subject) -> int:
    layout = await read_layout(subject.url)
    assert layout is not None
    return layout.major


async def _add_log(store: MetadataStore) -> str:
    """Write a named record as a shared log has it, and return its name. A name is never written again."""
    name = f"{LOGS_PREFIX}{secrets.token_hex(8)}"
    assert await store.named_records.replace(name, None, b"1")
    return name


async def test_format_is_raised_and_lowered_for_all_clients(kept_subject: Subject, clients: Clients) -> None:
    store, other = await clients.open(kept_subject), await clients.open(kept_subject)
    assert await _format(kept_subject) == FORMAT_MAJOR
    for each in (store, store, other):
        assert await each.set_format(SHARED_LOGS_MAJOR)
        assert await _format(kept_subject) == SHARED_LOGS_MAJOR
    await kept_subject.format()
    assert await _format(kept_subject) == SHARED_LOGS_MAJOR
    async with await kept_subject.open() as later:
        assert await later.set_format(FORMAT_MAJOR, unless=LOGS_PREFIX)
    assert await _format(kept_subject) == FORMAT_MAJOR


async def test_format_is_not_lowered_beside_a_record(kept_subject: Subject, clients: Clients) -> None:
    store = await clients.open(kept_subject)
    name = await _add_log(store)
    await store.set_format(SHARED_LOGS_MAJOR)
    assert not await store.set_format(FORMAT_MAJOR, unless=LOGS_PREFIX)
    await kept_subject.format(wipe=True)
    assert await _format(kept_subject) == SHARED_LOGS_MAJOR
    store = await clients.open(kept_subject)
    assert await store.named_records.read(name) == b"1"
    assert await store.named_records.delete(name, b"1")
    await kept_subject.format(wipe=True)
    assert await _format(kept_subject) == FORMAT_MAJOR


async def test_record_beside_a_lowering_leaves_the_higher_format(kept_subject: Subject, clients: Clients) -> None:
    """A hub writes its record first, and raises the format then, whatever the others do meanwhile."""
    store, other = await clients.open(kept_subject), await clients.open(kept_subject)

    async def begin_log() -> str:
        name = await _add_log(store)
        assert await store.set_format(SHARED_LOGS_MAJOR)
        return name

    for _ in range(ROUNDS):
        await store.set_format(SHARED_LOGS_MAJOR)
        beginning = asyncio.ensure_future(begin_log())
        await asyncio.gather(*(each.set_format(FORMAT_MAJOR, unless=LOGS_PREFIX) for each in (other, other, store)))
        name = await beginning
        assert await _format(kept_subject) == SHARED_LOGS_MAJOR
        assert await store.named_records.delete(name, b"1")
