"""The named records of a namespace: rows of its layout table, each with one column, beside the managers' rows."""

from hedwig.clock import Deadline
from hedwig.metadata.calls.attempts import Attempts, Refusal, Verdict
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.hbase.driver import ConditionalPut, HBaseDriver, Row
from hedwig.metadata.hbase.schema import LAYOUT_COLUMN, Tables, layout_value
from hedwig.metadata.records.stamps import make_token

__all__ = ["HBaseNamedRecords"]


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
