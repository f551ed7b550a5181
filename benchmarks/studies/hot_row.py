"""Measure what a row costs that is written over and over: `python -m hedwig.benchmarks.studies.hot_row URL`.

    .venv/bin/hedwig-admin dev up hbase --dir servers
    .venv/bin/python -m hedwig.benchmarks.studies.hot_row 'hbase://127.0.0.1:PORT/bench?registry=rpc'

A table with NEW_VERSION_BEHAVIOR and one without stand beside each other. In each a row is rewritten by
compare-and-set, one write after the other, and between so many writes it is read by 64 callers. Nothing is flushed
meanwhile. For each number of writes both take their turn.
"""

import argparse
import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from hedwig.clock import Deadline
from hedwig.metadata import MetadataUrl, StoreOptions
from hedwig.metadata.contract.kinds import OWNERSHIP
from hedwig.metadata.hbase.driver import ConditionalPut
from hedwig.metadata.hbase.native import NativeDriver, connect
from hedwig.metadata.hbase.schema import Tables

__all__ = ["main"]

_ATTRIBUTE: Final = "NEW_VERSION_BEHAVIOR"
_VERSION: Final = b"o:v"
_DATA: Final = b"o:d"
_COLUMNS: Final = (_VERSION, _DATA)
_ROW: Final = b"0000hot"
_READS: Final = 4000
_READERS: Final = 64
_TIMEOUT_S: Final = 60.0
_OPTIONS: Final = StoreOptions(regions=1)


@dataclass(slots=True)
class _HotRow:
    """The row in one of the tables, at its last write."""

    driver: NativeDriver
    table: str
    written: int = 0

    async def write(self, times: int) -> float:
        """Write it over so many times; return how many a second."""
        began_at = time.perf_counter()
        for _ in range(times):
            expected, self.written = self._value(), self.written + 1
            put = ConditionalPut(
                table=self.table,
                row=_ROW,
                column=_VERSION,
                expected=expected,
                values={_VERSION: self._value() or b"", _DATA: bytes(40)},
                token=bytes(8),
                show=_COLUMNS,
            )
            if await self.driver.put_if(put, _deadline()) is not None:
                raise SystemExit(f"somebody else writes to {self.table}")
        return times / (time.perf_counter() - began_at)

    async def read(self) -> float:
        """Read it by many callers; return how many reads a second."""

        async def call() -> None:
            for _ in range(_READS // _READERS):
                row = await self.driver.get(self.table, _ROW, _COLUMNS, _deadline())
                if row is None or row.value(_VERSION) != self._value():
                    raise SystemExit(f"{self.table} does not hold what was written last")

        began_at = time.perf_counter()
        await asyncio.gather(*(call() for _ in range(_READERS)))
        return _READS / (time.perf_counter() - began_at)

    def _value(self) -> bytes | None:
        return b"%025d" % self.written if self.written else None


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description="Measure what a row costs that is written over and over.")
    parser.add_argument("url", help="where to make the tables, as hbase://host:port/NAMESPACE?registry=rpc")
    parser.add_argument(
        "--writes", default="1,200,1000,4000,16000", help="after how many writes (default: %(default)s)"
    )
    chosen = parser.parse_args()
    asyncio.run(_measure(MetadataUrl.parse(chosen.url), [int(number) for number in chosen.writes.split(",")]))


async def _measure(url: MetadataUrl, writes: Sequence[int]) -> None:
    driver = await connect(url, _OPTIONS)
    try:
        rows = [await _made(driver, url.path.strip("/"), value) for value in ("true", "false")]
        for row in rows:
            await row.write(100)
            await row.read()  # Warms the server up.
        print("| writes | reads a second, with it | without | writes a second, with it | without |")
        print("|---|---|---|---|---|")
        for number in writes:
            rates = [await row.write(max(1, number - row.written)) for row in rows]
            reads = [await row.read() for row in rows]
            told = [f"{rate:,.0f}" for rate in (*reads, *rates)]
            print(f"| {number:,} | {' | '.join(told)} |", flush=True)
    finally:
        await driver.close()


async def _made(driver: NativeDriver, namespace: str, value: str) -> _HotRow:
    tables = Tables(f"{namespace}_{value}")
    (spec,) = (spec for spec in tables.specs(1) if spec.name == tables.name(OWNERSHIP))
    spec = replace(spec, family_attributes={**spec.family_attributes, _ATTRIBUTE: value})
    await driver.create_namespace(tables.namespace, _deadline())
    await driver.create_table(spec, _deadline())
    return _HotRow(driver, spec.name)


def _deadline() -> Deadline:
    return Deadline.after(_OPTIONS.clock, _TIMEOUT_S)


if __name__ == "__main__":
    main()
