"""Compares a record in the store itself, read without the code under test, with the acknowledged one."""

from hedwig.metadata import RecordKey
from hedwig.metadata.testing.doors import Call
from hedwig.metadata.testing.probe import Probe
from hedwig.versions import Version

__all__ = ["assert_stored"]


async def assert_stored(probe: Probe, door: Call, key: RecordKey, number: int, version: Version) -> None:
    """Raise AssertionError unless the store holds the record made from `number`, at `version`.

    SQLite and HBase store the version itself. ZooKeeper counts it, so there only the bytes are compared.
    """
    cells = await probe.cells(door.kind, key)
    stored = [cell.value for cell in cells.values()]
    assert any(_says(value, number) for value in stored), f"{key}: number {number} is not in {cells}"
    if version.raw[:1] in (b"s", b"h"):
        assert version.raw[1:] in stored, f"{key}: {version} is not in {cells}"


def _says(value: bytes, number: int) -> bool:
    """Say whether stored bytes are those of the owner record or the preferences made from `number`."""
    digits = b"%d" % number
    return b"hub-" + digits + b".example" in value or digits in value.partition(b"number")[2]
