"""A wipe drops the records of topics, repairs the layout, and keeps the count of a standalone hub's starts."""

from collections.abc import Iterable

import pytest

from hedwig.errors import LayoutError
from hedwig.metadata import StoreOptions, format_metadata, open_metadata
from tests.metadata.hbase.conftest import Namespace

OPTIONS = StoreOptions(regions=3)
MANAGERS = (b"ownership", b"persistence", b"subscriptions")


@pytest.mark.parametrize("column", [b"m:d", b"m:v"], ids=["data", "version"])
@pytest.mark.parametrize("value", [b"\xc1 garbage", b"", None], ids=["garbage", "empty", "gone"])
async def test_wipe_mends_a_damaged_layout_and_keeps_the_count(
    namespace: Namespace, column: bytes, value: bytes | None
) -> None:
    before = await format_metadata(namespace.url, OPTIONS, wipe=True)
    async with await open_metadata(namespace.url, OPTIONS) as store:
        starts = await store.register_standalone("hub-1", "a:1")
    _damage(namespace, MANAGERS[1:], column, value)
    if column == b"m:d":
        with pytest.raises(LayoutError):
            await open_metadata(namespace.url, OPTIONS)
    after = await format_metadata(namespace.url, OPTIONS, wipe=True)
    assert after.store_id != before.store_id
    async with await open_metadata(namespace.url, OPTIONS) as store:
        assert await store.register_standalone("hub-1", "a:1") == starts + 1
    with namespace.happybase() as connection:
        rows = dict(connection.table(f"{namespace.name}:layout").scan())
    assert set(rows) == {*MANAGERS, b"standalone-hub"}
    assert all(rows[manager][b"m:v"].startswith(b"L") for manager in MANAGERS)


def _damage(namespace: Namespace, managers: Iterable[bytes], column: bytes, value: bytes | None) -> None:
    with namespace.happybase() as connection:
        table = connection.table(f"{namespace.name}:layout")
        for manager in managers:
            if value is None:
                table.delete(manager, columns=[column])
            else:
                table.put(manager, {column: value})
