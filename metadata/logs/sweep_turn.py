"""Whose turn it is to sweep the shared logs: that of one hub, or of nobody while ranges are brought into the store.

A named record says it. Whoever has the turn changes the record more often than once in an interval. A hub takes the
turn of another that has not changed the record since the hub's last look, an interval ago. So each measures time by its
own clock alone.

An import, a restore or a migration holds the turn while it writes ranges, and first changes the record of each log:

- A sweep that began before reads the turn again once it has read the records of the logs. If the turn is gone, it ends.
- Else it has read these records before the hold changed them. Then it is refused, whenever it frees something.
- A sweep that begins after the hold finds the ranges in both of its readings.

A process that dies leaves a hold that ends by itself after an interval.
"""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from hedwig.clock import Clock, SystemClock
from hedwig.errors import HedwigError, MetadataError
from hedwig.metadata.contract.named_records import NamedRecords, replace_surely
from hedwig.metadata.contract.write_gate import WriteGate, passing
from hedwig.metadata.logs.records import KeptLogRecords
from hedwig.model import HubInfo

__all__ = ["SWEEP_INTERVAL_S", "SweepHoldLostError", "SweepTurn", "sweep_held"]

_log = logging.getLogger(__name__)

SWEEP_INTERVAL_S: Final = 3600.0
"""How often a hub sweeps the logs, or looks whose turn it is."""

_RENEWALS: Final = 12
"""How often a hold is renewed in an interval."""
_NAME: Final = "sweep-of-logs"
_HELD: Final = b"held"
"""What begins the record of a hold, where that of a hub has its address, which has a port."""


class SweepHoldLostError(HedwigError):
    """Hubs have swept the logs while ranges were brought into the store: some of these may name what is deleted."""


class SweepTurn:
    """The turn of the hub `me`. `gate` is that of all writes of this process, if it has one."""

    def __init__(self, records: NamedRecords, me: HubInfo, gate: WriteGate | None = None) -> None:
        self._records = records
        self._gate = gate
        self._mine = b"%s %d" % (me.address.encode(), me.epoch)
        self._seen: bytes | None = None
        """The record at the last look."""

    async def take(self) -> bool:
        """Take the turn, or keep it; return whether this hub has it. Call this once in an interval.

        Raises: MetadataError.
        """
        stored = await self._records.read(_NAME)
        seen, self._seen = self._seen, stored
        if stored is not None and stored != seen and not stored.startswith(self._mine + b" "):
            return False
        mine = _fresh(self._mine)
        async with passing(self._gate):
            if not await replace_surely(self._records, _NAME, stored, mine):
                return False
        self._seen = mine
        return True

    async def is_kept(self) -> bool:
        """Say whether nobody else has taken the turn since `take`. Raises: MetadataError."""
        return await self._records.read(_NAME) == self._seen


@asynccontextmanager
async def sweep_held(
    records: NamedRecords, clock: Clock | None = None, interval_s: float = SWEEP_INTERVAL_S
) -> AsyncIterator[None]:
    """Keep all hubs from sweeping logs for the body, which brings ranges into the store. Several may do so at once.

    Nothing ends the hold but that an interval passes. Each sweep after it reads all ranges, twice.

    Raises: SweepHoldLostError - this process stood still for so long that a hub took the turn; MetadataError.
    """
    hold = _Hold(records)
    await hold.take()
    # It takes a while to change the records of many logs, and the hold must not end meanwhile.
    keeping = asyncio.create_task(_keep(hold, clock or SystemClock(), interval_s / _RENEWALS))
    try:
        await hold.refuse_sweeps()
        yield
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])
    await hold.renew()


class _Hold:
    """The turn in the hands of one who brings ranges into the store, or of several.

    They share the id of the hold, which lasts for as long as no hub has the turn.
    """

    def __init__(self, records: NamedRecords) -> None:
        self._records = records
        self._mine = b""

    async def take(self) -> None:
        """Take the turn from whoever has it. Raises: MetadataError."""
        while True:
            stored = await self._records.read(_NAME)
            words = (stored or b"").split(b" ")
            self._mine = b" ".join(words[:2] if words[0] == _HELD else (_HELD, _token()))
            if await replace_surely(self._records, _NAME, stored, _fresh(self._mine)):
                return

    async def refuse_sweeps(self) -> None:
        """Have each sweep that is halfway refused. Raises: MetadataError."""
        logs = KeptLogRecords(self._records)
        async for number in logs.numbers():
            while (record := await logs.read(number)) is not None:
                if await logs.replace(record, record.imported()):
                    break

    async def renew(self) -> None:
        """Change the record. Raises: SweepHoldLostError; MetadataError."""
        while True:
            stored = await self._records.read(_NAME)
            if stored is None or not stored.startswith(self._mine + b" "):
                raise SweepHoldLostError(
                    "this process stood still for so long that a hub has swept the shared logs meanwhile, so some of "
                    "the ledgers that it brought in may be gone: see with hedwig-admin metadata check"
                )
            if await replace_surely(self._records, _NAME, stored, _fresh(self._mine)):
                return


async def _keep(hold: _Hold, clock: Clock, pause_s: float) -> None:
    """Renew a hold until cancelled, or until it is lost."""
    while True:
        await clock.sleep(pause_s)
        try:
            await hold.renew()
        except MetadataError as exc:
            _log.warning("the sweep of shared logs is held a little later: %s", exc)
        except SweepHoldLostError:
            return  # Found again at the end.


def _fresh(holder: bytes) -> bytes:
    """Return a record that the store never held before."""
    return b"%s %s" % (holder, _token())


def _token() -> bytes:
    return secrets.token_hex(8).encode()
