"""Prove that docs/reference/shared-log-layout.md shows the bytes that a shared log has."""

import re
from typing import Final

from hedwig.hub.ledgers.shared.entries.batches import Batch, OpenBatch
from hedwig.hub.ledgers.shared.entries.footers import Root, decode_block, encode_footer
from hedwig.hub.ledgers.shared.entries.runs import GrowingRuns
from hedwig.metadata.logs.record import DroppedLedger, LogRecord, Segment
from hedwig.metadata.logs.virtual_ids import virtual_id
from hedwig.model import HubInfo
from tests.support.checkout import CHECKOUT

_PAGE: Final = (CHECKOUT / "docs" / "reference" / "shared-log-layout.md").read_text(encoding="utf-8")
_BATCH, _BLOCK, _ROOT, _RECORD = [
    bytes.fromhex(shown) for shown in re.findall(r"^    ((?:[0-9a-f]+ ?)+)$", _PAGE, re.MULTILINE)
]


def test_the_ledger_id_of_the_page() -> None:
    assert f"Slot 1 of log 3 is ledger {virtual_id(3, 1)}." in _PAGE


def test_the_batch_of_the_page() -> None:
    batch = OpenBatch()
    for slot, entry_id, payload in ((1, 0, b"hello"), (2, 0, b""), (1, 1, b"you")):
        batch.add(slot, entry_id, payload)
    assert batch.encode().data == _BATCH


def test_the_footer_of_the_page() -> None:
    runs = GrowingRuns()
    runs.add(0, Batch.decode(_BATCH).records())
    block, root = encode_footer(runs.in_order(), 0)
    # Releases of zlib compress differently.
    assert list(decode_block(_BLOCK).fields()) == list(decode_block(block).fields())
    assert root == _ROOT
    assert (Root.decode(_ROOT).records, Root.decode(_ROOT).size) == (3, 8)


def test_the_record_of_the_page() -> None:
    record = LogRecord(
        number=3,
        hub=HubInfo.at("h1:4080:-1", epoch=77),
        listed=(12, 13),
        segments=(Segment(10, 10, 1, 9, 20, 3000), Segment(11, 14, 5, 8, 9, 100)),
        dropped=(DroppedLedger(7, 1_700_000_000),),
        change=6,
    )
    assert record.encode() == _RECORD
    assert LogRecord.decode(_RECORD) == record
