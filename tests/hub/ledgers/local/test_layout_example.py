"""Prove that the store writes the bytes of the worked example in docs/reference/local-ledgers.md."""

import random
import re
import struct
from pathlib import Path

from hedwig.hub.ledgers import LocalLedgerOptions, LocalLedgerStore
from tests.support.checkout import CHECKOUT

PAGE = CHECKOUT / "docs" / "reference" / "local-ledgers.md"
EXAMPLE = re.compile(r"^    (\d+)  +([0-9a-f ]+)$", re.MULTILINE)


class _Salt(random.Random):
    def getrandbits(self, _: int) -> int:
        return 0x11223344


async def test_worked_example_is_what_the_store_writes(tmp_path: Path) -> None:
    store = await LocalLedgerStore.open(tmp_path, LocalLedgerOptions(reserve_bytes=1 << 16), source=_Salt())
    first = await store.create()
    await store.append(first, 0, b"hello")
    await store.append(first, 1, b"")
    await store.close(first)
    await store.delete(await store.create())
    await store.aclose()
    _check(tmp_path)


def _check(folder: Path) -> None:
    (segment,) = folder.glob("*.segment")
    lines = EXAMPLE.findall(PAGE.read_text())
    assert [int(offset) for offset, _ in lines] == [0, 64, 100, 141, 177, 213, 249]
    assert b"".join(bytes.fromhex(line) for _, line in lines) == segment.read_bytes()

    index = segment.with_suffix(".index").read_bytes()
    assert list(struct.iter_unpack(">QIIII", index[4096 : 4096 + 48])) == [(1, 0, 4, 149, 0), (2, 4, 2, 72, 1)]
    assert list(struct.iter_unpack(">QQ", index[8192 : 8192 + 96])) == [
        (0, 0),
        (1, (100 << 32) + 5),
        (2, 141 << 32),
        ((1 << 63) + 3, 2),
        (0, 0),
        ((1 << 63) + 5, 0),
    ]
