"""A format that was recorded for some managers only counts, and the next process that records it completes it."""

import msgpack

from hedwig.metadata import StoreOptions, format_metadata, open_metadata, read_layout
from hedwig.metadata.contract.layout import FORMAT_MAJOR, SHARED_LOGS_MAJOR
from tests.metadata.hbase.conftest import Namespace

OPTIONS = StoreOptions(regions=3)
MANAGERS = (b"ownership", b"persistence", b"subscriptions")


async def test_half_recorded_format_counts_and_is_completed(namespace: Namespace) -> None:
    await format_metadata(namespace.url, OPTIONS, wipe=True)
    async with await open_metadata(namespace.url, OPTIONS) as store:
        await store.set_format(SHARED_LOGS_MAJOR)
        # A newer release may have added fields.
        _change(namespace, MANAGERS[1], a=FORMAT_MAJOR, z="newer")
        _change(namespace, MANAGERS[2], a=FORMAT_MAJOR)
        layout = await read_layout(namespace.url, OPTIONS)
        assert layout is not None
        assert layout.major == SHARED_LOGS_MAJOR
        assert (await format_metadata(namespace.url, OPTIONS)).major == SHARED_LOGS_MAJOR
        assert await store.set_format(SHARED_LOGS_MAJOR)
    async with await open_metadata(namespace.url, OPTIONS) as store:
        assert (await store.describe())["format"] == f"{SHARED_LOGS_MAJOR}.0"
    fields = [_fields(namespace, manager) for manager in MANAGERS]
    assert [each["a"] for each in fields] == [SHARED_LOGS_MAJOR] * 3
    assert fields[1]["z"] == "newer"


def _fields(namespace: Namespace, manager: bytes) -> dict[str, object]:
    with namespace.happybase() as connection:
        stored = connection.table(f"{namespace.name}:layout").row(manager)[b"m:d"]
    fields: dict[str, object] = msgpack.unpackb(stored)
    return fields


def _change(namespace: Namespace, manager: bytes, **fields: object) -> None:
    changed = msgpack.packb(_fields(namespace, manager) | fields)
    with namespace.happybase() as connection:
        connection.table(f"{namespace.name}:layout").put(manager, {b"m:d": changed})
