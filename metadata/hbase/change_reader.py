"""The reader of the changes of a namespace: a named record, which one reader at a time holds.

The record serves three ends:

- A reader finds out when another reader has taken over.
- The time at which a region server wrote the record is the reader's clock.
- `sweep` keeps the tombstones that the reader has still to see.
"""

import math
import secrets
from dataclasses import dataclass
from typing import Final

import msgpack

from hedwig.clock import Deadline
from hedwig.errors import MetadataUnavailableError, UncertainStateError
from hedwig.metadata.calls.attempts import Attempts, Refusal, Verdict
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.hbase.driver import ConditionalPut, HBaseDriver, Row
from hedwig.metadata.hbase.schema import LAYOUT_COLUMN, Tables, layout_value
from hedwig.metadata.records.stamps import make_token

__all__ = ["ChangeReader", "ReaderRecord"]

_ROW: Final = b"changes"
_KEPT_MS: Final = 24 * 3600 * 1000
"""How long after its last write of the record `sweep` keeps tombstones for a reader."""
_IDLE_MAX_MS: Final = _KEPT_MS - 4 * 3600 * 1000
"""A reader that did not write the record for this time has to begin again."""
_SLACK_MS: Final = 1000
"""How much two clocks may drift apart between two reads of them."""


@dataclass(frozen=True, slots=True)
class _Holding:
    """The record as it is stored: its bytes, and when they were written, by the clock of a region server."""

    raw: bytes
    written_ms: int


class ReaderRecord:
    """The record of the reader of the changes of one namespace."""

    def __init__(self, tables: Tables, driver: HBaseDriver, options: StoreOptions) -> None:
        self._table = tables.layout
        self._driver = driver
        self._options = options

    async def read(self) -> _Holding | None:
        """Return the stored record, None if there is none."""
        row = await Attempts(self._options, f"look who reads the changes in {self._table}").read(
            lambda deadline: self._driver.get(self._table, _ROW, (LAYOUT_COLUMN,), deadline)
        )
        raw = layout_value(row)
        return None if row is None or raw is None else _Holding(raw, row.cells[LAYOUT_COLUMN].timestamp_ms)

    async def write(self, expected: bytes | None, raw: bytes) -> bool:
        """Store `raw`, which the record never held before, if the record holds `expected`. Return whether it did.

        Raises: MetadataUnavailableError, UncertainStateError.
        """
        put = ConditionalPut(
            table=self._table,
            row=_ROW,
            column=LAYOUT_COLUMN,
            expected=expected,
            values={LAYOUT_COLUMN: raw},
            token=make_token(self._options.random),
            show=(LAYOUT_COLUMN,),
        )

        async def attempt(deadline: Deadline) -> Refusal[Row] | None:
            return await self._driver.put_if(put, deadline)

        def judge(row: Row | None) -> Verdict:
            # Only another reader overwrites the record of a reader, and it deletes the record first.
            return Verdict.APPLIED if layout_value(row) == raw else Verdict.REFUSED

        attempts = Attempts(self._options, f"say who reads the changes in {self._table}")
        return await attempts.write(attempt, judge) is None

    async def remove(self, holding: _Holding) -> None:
        """Delete the record if it is still the one found. The delete has its own time, so it hides nothing later."""
        await Attempts(self._options, f"say that nobody reads the changes in {self._table}").read(
            lambda deadline: self._driver.delete_if(
                self._table, _ROW, LAYOUT_COLUMN, holding.raw, {LAYOUT_COLUMN: holding.written_ms}, deadline
            )
        )

    async def forget(self) -> None:
        """Delete the record of any reader. That reader has to begin again."""
        holding = await self.read()
        if holding is not None:
            await self.remove(holding)

    async def kept_from_ms(self) -> float:
        """Return the time, by the servers' clocks, from which on a reader needs tombstones; inf without a reader."""
        holding = await self.read()
        if holding is None or holding.written_ms < self._options.clock.wall() * 1000 - _KEPT_MS:
            return math.inf
        try:
            return float(msgpack.unpackb(holding.raw)["k"])
        except (ValueError, KeyError, TypeError, msgpack.UnpackException):
            # It is not known what a reader needs that wrote such a record, so all tombstones are kept.
            return 0.0


class ChangeReader:
    """One reader of the changes of a namespace, with its clock, which is that of the region servers."""

    def __init__(self, record: ReaderRecord, options: StoreOptions, *, idle_max_ms: int = _IDLE_MAX_MS) -> None:
        self._record = record
        self._options = options
        self._idle_max_ms = idle_max_ms
        self._held: bytes | None = None
        self._now_ms = 0
        self._server_ms = 0
        self._asked_at = 0.0

    async def begin(self) -> int:
        """Become the reader. Return the time on a region server. `sweep` keeps tombstones from now on.

        Raises: MetadataUnavailableError, UncertainStateError - begin again.
        """
        asked_at = self._options.clock.monotonic()
        self._held = None
        # Delete the record of the previous reader first, rather than overwrite it. A server gives a cell no earlier
        # time than that of the cell which it replaces. That time may come from a clock that was wrong.
        await self._record.forget()
        self._server_ms = self._now_ms = (await self._write(None, 0)).written_ms
        self._asked_at = asked_at
        return self._now_ms

    async def renew(self, kept_from_ms: int) -> int:
        """Return the time on a region server after this call began. `sweep` keeps tombstones from `kept_from_ms` on.

        Raises: MetadataUnavailableError - HBase did not answer, or another reader has begun, or the last call was too
            long ago. In the last two cases begin again; UncertainStateError - begin again.
        """
        if self._held is None:
            raise MetadataUnavailableError("the store does not keep its changes, or no longer does; begin again")
        asked_at = self._options.clock.monotonic()
        server_ms = (await self._write(self._held, kept_from_ms)).written_ms
        if server_ms - self._server_ms > self._idle_max_ms:
            self._held = None
            raise MetadataUnavailableError(
                f"no client took the changes of this store for {self._idle_max_ms / 1000:g} s, so deletions may "
                "be missing; begin again"
            )
        # If a server's clock is put forward in between, the reader must not miss changes that other servers wrote.
        passed_ms = int((self._options.clock.monotonic() - self._asked_at) * 1000) + _SLACK_MS
        self._now_ms = min(server_ms, self._now_ms + passed_ms)
        self._server_ms, self._asked_at = server_ms, asked_at
        return self._now_ms

    async def end(self) -> None:
        """Stop being the reader, unless another reader has begun. Raises MetadataUnavailableError."""
        holding = await self._record.read()
        if holding is not None and holding.raw == self._held:
            await self._record.remove(holding)
        self._held = None

    async def _write(self, expected: bytes | None, kept_from_ms: int) -> _Holding:
        raw: bytes = msgpack.packb({"t": secrets.token_bytes(16), "k": kept_from_ms})
        try:
            is_done = await self._record.write(expected, raw)
        except UncertainStateError:
            self._held = None
            raise
        self._held = raw if is_done else None
        holding = await self._record.read() if is_done else None
        if holding is None or holding.raw != raw:
            self._held = None
            raise MetadataUnavailableError(
                "another migration from this store has begun and takes its changes; stop one of them"
            )
        return holding
