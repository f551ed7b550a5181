"""Prove that cuts are spread evenly over a walk of unknown length, in short steps."""

import sqlite3
import threading
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from hedwig.clock import Deadline
from hedwig.errors import MetadataUnavailableError, UncertainStateError, exit_code_of
from hedwig.exit_codes import ExitCode
from hedwig.metadata import RecordKey, StoreOptions, Write, open_metadata
from hedwig.metadata.contract.kinds import PERSISTENCE
from hedwig.metadata.sqlite.cuts import Cuts
from hedwig.metadata.sqlite.sqlite_thread import SqliteThread, connect
from hedwig.model import LedgerRanges, Topic
from hedwig.versions import NEW

STRIDE_MAX = 20_000


def _walked(rows: int, parts: int, rows_min: int) -> tuple[list[int], int]:
    """Walk over the numbers below `rows`; return the chosen ones, and the longest stride."""
    cuts: Cuts[int] = Cuts(parts, rows_min)
    position = longest = 0
    while position + cuts.stride < rows:
        longest = max(longest, cuts.stride)
        position += cuts.stride
        cuts.passed(position)
    cuts.end(rows - position)
    assert cuts.rows_each * parts >= rows
    return cuts.chosen(), longest


@pytest.mark.parametrize("rows", [0, 1, 2, 7, 100, 4_000, 99_999, 1_000_000])
@pytest.mark.parametrize(
    ("parts", "rows_min"), [(2, 1), (3, 1), (7, 10), (100, 1_000), (10_000, 100_000), (5, 9_999_999)]
)
def test_parts_are_as_even_as_they_can_be(rows: int, parts: int, rows_min: int) -> None:
    chosen, longest = _walked(rows, parts, rows_min)
    step = max(rows_min, -(-rows // parts), 1)
    assert len(chosen) == max(0, -(-rows // step) - 1) < parts
    sizes = _sizes(chosen, rows)
    assert sum(sizes) == rows
    assert all(size > 0 for size in sizes[:-1])
    assert max(sizes) <= step + max(1, step // 4)
    assert longest <= STRIDE_MAX


def _sizes(chosen: Sequence[int], rows: int) -> list[int]:
    ends = [0, *chosen, rows]
    return [stop - start for start, stop in pairwise(ends)]


async def test_no_statement_of_a_cut_reads_the_whole_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    statements: list[str] = []
    async with await open_metadata(f"sqlite://{tmp_path}/store.db") as store:
        writes = [Write(RecordKey(Topic(b"%05d" % number)), LedgerRanges(), NEW) for number in range(900)]
        for outcome in await store.persistence.apply(writes):
            outcome.check()
        run = SqliteThread.run

        async def seen(self: SqliteThread, what: str, work: object, deadline: Deadline | None = None) -> object:
            def traced(connection: sqlite3.Connection) -> object:
                connection.set_trace_callback(statements.append)
                try:
                    return work(connection)  # type: ignore[operator]
                finally:
                    connection.set_trace_callback(None)

            return await run(self, what, traced, deadline)

        monkeypatch.setattr(SqliteThread, "run", seen)
        assert len(await store.key_ranges(PERSISTENCE, 4, rows_min=100)) == 4
        assert await store.key_ranges(PERSISTENCE, 1)
    selects = [statement for statement in statements if "SELECT" in statement]
    assert len(selects) > 4
    assert all("LIMIT" in statement for statement in selects)


async def test_a_read_that_does_not_end_in_time_leaves_nothing_uncertain(tmp_path: Path) -> None:
    options = StoreOptions(operation_timeout_s=0.1)
    goes_on = threading.Event()
    for writes, expected, code in (
        (False, MetadataUnavailableError, ExitCode.UNAVAILABLE),
        (True, UncertainStateError, ExitCode.OUTCOME_UNKNOWN),
    ):
        thread = SqliteThread("slow", connect(str(tmp_path / "store.db"), options), options, writes=writes)
        with pytest.raises(MetadataUnavailableError) as caught:
            await thread.run("look", lambda _: goes_on.wait(30))
        goes_on.set()
        await thread.close()
        goes_on.clear()
        assert type(caught.value) is expected
        assert exit_code_of(caught.value) is code
