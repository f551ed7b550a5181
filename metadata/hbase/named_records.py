"""The named records of a namespace: rows of its layout table, each with one column, beside the managers' rows."""

from collections.abc import Sequence
from typing import Final

from hedwig.clock import Deadline
from hedwig.metadata.calls.attempts import Attempts, Refusal, Verdict
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.hbase.driver import ConditionalPut, HBaseDriver, Row, ScanRange
from hedwig.metadata.hbase.schema import LAYOUT_COLUMN, Tables, layout_value
from hedwig.metadata.records.stamps import make_token
from hedwig.outcomes import NotAppliedError, OutcomeUnknownError

__all__ = ["HBaseNamedRecords"]

_PAGE_ROWS: Final = 64
"""A listing reads the values too, each up to a megabyte."""
_LAST: Final = b"~"
"""It sorts after every character of a name."""


class HBaseNamedRecords:
    """The NamedRecords of one open namespace. A write compares the column of the value itself."""

    def __init__(self, tables: Tables, driver: HBaseDriver, options: StoreOptions) -> None:
        self._table = tables.layout
        self._driver = driver
        self._options = options

    async def read(self, name: str) -> bytes | None:
        async def attempt(deadline: Deadline) -> Row | None:
            return await self._driver.get(self._table, name.encode(), (LAYOUT_COLUMN,), deadline)

        return layout_value(await Attempts(self._options, f"read {name!r} of {self._table}").read(attempt))

    async def replace(self, name: str, expected: bytes | None, value: bytes) -> bool:
        put = ConditionalPut(
            table=self._table,
            row=name.encode(),
            column=LAYOUT_COLUMN,
            expected=expected,
            values={LAYOUT_COLUMN: value},
            token=make_token(self._options.random),
            show=(LAYOUT_COLUMN,),
        )

        async def attempt(deadline: Deadline) -> Refusal[Row] | None:
            return await self._driver.put_if(put, deadline)

        def judge(row: Row | None) -> Verdict:
            return Verdict.APPLIED if layout_value(row) == value else Verdict.UNCERTAIN

        return await Attempts(self._options, f"write {name!r} of {self._table}").write(attempt, judge) is None

    async def delete(self, name: str, expected: bytes) -> bool:
        async def attempt(deadline: Deadline) -> Refusal[Row] | None:
            row = await self._look_before(name, deadline)
            if row is None or layout_value(row) != expected:
                return Refusal(row)
            cells = {LAYOUT_COLUMN: row.cells[LAYOUT_COLUMN].timestamp_ms}
            done = await self._driver.delete_if(self._table, name.encode(), LAYOUT_COLUMN, expected, cells, deadline)
            # Another client was faster between the look and the delete.
            return None if done else Refusal(row)

        def judge(row: Row | None) -> Verdict:
            return Verdict.APPLIED if layout_value(row) is None else Verdict.UNCERTAIN

        return await Attempts(self._options, f"delete {name!r} of {self._table}").write(attempt, judge) is None

    async def names(self, prefix: str) -> Sequence[str]:
        start, stop = prefix.encode(), prefix.encode() + _LAST
        names: list[str] = []
        attempts = Attempts(self._options, f"list {prefix!r} of {self._table}")

        async def attempt(deadline: Deadline) -> list[Row]:
            rows = ScanRange(start=start, stop=stop, columns=(LAYOUT_COLUMN,))
            return await self._driver.scan(self._table, rows, _PAGE_ROWS, deadline)

        while True:
            page = await attempts.read(attempt)
            names += [row.key.decode() for row in page if layout_value(row) is not None]
            if len(page) < _PAGE_ROWS:
                return names
            start = page[-1].key + b"\0"

    async def _look_before(self, name: str, deadline: Deadline) -> Row | None:
        try:
            return await self._driver.get(self._table, name.encode(), (LAYOUT_COLUMN,), deadline)
        except OutcomeUnknownError as exc:
            raise NotAppliedError(str(exc)) from exc  # Losing a read leaves nothing unknown.
