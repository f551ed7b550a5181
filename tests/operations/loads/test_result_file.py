"""Prove that a result file, cut or damaged anywhere, never claims more than the load has done."""

import json
from pathlib import Path

import pytest

from hedwig.errors import OperationError
from hedwig.metadata import RecordKey
from hedwig.metadata.bulk.loading import RowOutcome, RowResult
from hedwig.model import Topic
from hedwig.operations.loads.bulk_input import BulkInput, RowBatch
from hedwig.operations.loads.result_file import Checkpoint, LoadIdentity, ResultFile

LOAD = LoadIdentity(command="topic create", metadata="sqlite:///x")


def _recorded(path: Path) -> list[Checkpoint]:
    """Write a result file of three batches, each with a failure; return all its checkpoints in order."""
    source = path.with_name("rows")
    source.write_text("".join(f"topic-{row}\n\n" for row in range(6)))
    given = BulkInput(str(source), with_subscriber=False)
    results = ResultFile(path, LOAD, restart=False)
    checkpoints = [results.checkpoint]
    while (batch := given.read_batch(4)) is not None:
        outcomes = _outcomes(batch)
        results.record(batch.rows, outcomes, results.checkpoint.after(batch.rows, outcomes, batch.end, 0))
        checkpoints.append(results.checkpoint)
    results.close()
    given.close()
    return checkpoints


def _outcomes(batch: RowBatch) -> list[RowOutcome]:
    failed = RowOutcome(RowResult.FAILED, "reason \u2028 \xff")
    return [RowOutcome(RowResult.CREATED) if row.key else failed for row in batch.rows]


def test_result_file_cut_at_any_byte_gives_the_last_whole_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "result"
    checkpoints = _recorded(path)
    assert [checkpoint.position.line for checkpoint in checkpoints] == [0, 4, 8, 12]
    assert checkpoints[-1].last == RecordKey(Topic(b"topic-5"))
    whole = path.read_bytes()
    seen = set()
    for length in range(len(whole) + 1):
        for rest in (b"", bytes(7)):
            path.write_bytes(whole[:length] + rest if length else b"")
            results = ResultFile(path, LOAD, restart=False)
            kept = results.checkpoint
            assert kept in checkpoints
            assert whole[:length].count(b'"checkpoint"') - 1 <= checkpoints.index(kept)
            # The rest is a valid result file, to which the load appends the next batch.
            results.record([], [], kept)
            results.close()
            assert json.loads(path.read_bytes().splitlines()[-1]) == {"checkpoint": kept.fields()}
            seen.add(kept.position.line)
    assert seen == {0, 4, 8, 12}


def test_damaged_checkpoint_is_told(tmp_path: Path) -> None:
    path = tmp_path / "result"
    _recorded(path)
    path.write_bytes(path.read_bytes().replace(b'"sha256"', b'"sha999"'))
    with pytest.raises(OperationError, match=r"damaged.*--restart"):
        ResultFile(path, LOAD, restart=False)
