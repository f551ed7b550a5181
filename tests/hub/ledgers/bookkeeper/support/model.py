"""Bookies and ledger metadata in memory. Answers may be late, out of order or missing, as a seed decides.

The model does what the rules of the protocol allow. It tests the logic of ledgers, and does not prove how bookies
behave.
"""

import asyncio
import enum
from collections.abc import AsyncIterator, Callable, Collection
from functools import partial
from random import Random

from hedwig.errors import (
    BadVersionError,
    LedgerStoreUnavailableError,
    LedgerWriteError,
    NoSuchLedgerError,
)
from hedwig.hub.ledgers.bookkeeper.records.ledger_metadata import LedgerMetadata
from hedwig.hub.ledgers.bookkeeper.records.metadata_format import decode_metadata, encode_metadata
from hedwig.hub.ledgers.bookkeeper.wire.outcomes import BookieOutcome
from hedwig.hub.ledgers.bookkeeper.wire.requests import (
    LAST_ENTRY,
    AddEntry,
    BookieAnswer,
    Done,
    ReadEntry,
    ReadLac,
    Request,
    WriteLac,
)
from hedwig.versions import Version, Versioned

__all__ = ["LostCreation", "ModelBookies", "ModelMetadata", "View"]


class _Bookie:
    def __init__(self) -> None:
        self.entries: dict[int, dict[int, bytes]] = {}
        self.keys: dict[int, bytes] = {}
        self.fenced: set[int] = set()
        self.lacs: dict[int, bytes] = {}
        self.is_up = True
        self.is_registered = True
        self.refusal: BookieOutcome | None = None
        self.held_back: list[Callable[[], None]] | None = None
        """Answers that wait until the test sends them, if the bookie holds them back."""

    def serve(self, request: Request) -> BookieAnswer:
        if self.refusal is not None:
            return BookieAnswer(outcome=self.refusal)
        match request:
            case AddEntry():
                return self._add(request)
            case ReadEntry():
                return self._read(request)
            case ReadLac():
                held = self.entries.get(request.ledger_id)
                if not held:
                    return BookieAnswer(outcome=BookieOutcome.NO_LEDGER)
                lac_body = self.lacs.get(request.ledger_id, b"")
                return BookieAnswer(outcome=BookieOutcome.DONE, body=held[max(held)], lac_body=lac_body)
            case WriteLac():
                self.lacs[request.ledger_id] = request.body
                return BookieAnswer(outcome=BookieOutcome.DONE)

    def _add(self, request: AddEntry) -> BookieAnswer:
        if self.keys.setdefault(request.ledger_id, request.master_key) != request.master_key:
            return BookieAnswer(outcome=BookieOutcome.UNAUTHORIZED)
        if request.ledger_id in self.fenced and not request.is_recovery:
            return BookieAnswer(outcome=BookieOutcome.FENCED)
        # The first copy stays.
        self.entries.setdefault(request.ledger_id, {}).setdefault(request.entry_id, request.body)
        return BookieAnswer(outcome=BookieOutcome.DONE, entry_id=request.entry_id)

    def _read(self, request: ReadEntry) -> BookieAnswer:
        held = self.entries.get(request.ledger_id)
        if request.fence_key is not None:
            if self.keys.setdefault(request.ledger_id, request.fence_key) != request.fence_key:
                return BookieAnswer(outcome=BookieOutcome.UNAUTHORIZED)
            self.fenced.add(request.ledger_id)
        if held is None:
            return BookieAnswer(outcome=BookieOutcome.NO_ENTRY if request.fence_key else BookieOutcome.NO_LEDGER)
        entry_id = max(held, default=-1) if request.entry_id == LAST_ENTRY else request.entry_id
        if entry_id not in held:
            return BookieAnswer(outcome=BookieOutcome.NO_ENTRY)
        return BookieAnswer(outcome=BookieOutcome.DONE, entry_id=request.entry_id, body=held[entry_id])


class ModelBookies:
    """All bookies. `slow` is the chance that a request takes seconds, perhaps longer than any client waits."""

    def __init__(self, names: Collection[str], random: Random, *, slow: float = 0.0, delay_s: float = 0.01) -> None:
        self.bookies = {name: _Bookie() for name in names}
        self.random = random
        self.slow = slow
        self.delay_s = delay_s
        self.adds_sent = 0

    def __getitem__(self, name: str) -> _Bookie:
        return self.bookies[name]

    def crash(self, name: str) -> None:
        """Stop a bookie; its stored entries stay."""
        self[name].is_up = False

    def start(self, name: str) -> None:
        self[name].is_up = True

    def heal(self) -> None:
        self.slow = 0.0
        for name in self.bookies:
            self.start(name)


class View:
    """The bookies as one client sees them. Some may be unreachable."""

    def __init__(self, model: ModelBookies) -> None:
        self._model = model
        self.cut_off: set[str] = set()

    @property
    def bookies(self) -> Collection[str]:
        return self._model.bookies

    def writable(self) -> Collection[str]:
        return [name for name, bookie in self._model.bookies.items() if bookie.is_registered]

    def send(self, bookie: str, request: Request, timeout_s: float, done: Done) -> None:
        model = self._model
        model.adds_sent += isinstance(request, AddEntry)
        _Exchange(model, self, bookie, request, timeout_s, done)


class _Exchange:
    """One request on its way. Request and answer may each get lost, and the client waits at most `timeout_s`."""

    def __init__(
        self, model: ModelBookies, view: View, bookie: str, request: Request, timeout_s: float, done: Done
    ) -> None:
        self._model, self._view, self._bookie, self._request = model, view, bookie, request
        self._done: Done | None = done
        self._loop = asyncio.get_running_loop()
        if not self._is_reachable():
            self._loop.call_later(model.delay_s, self._answer, BookieAnswer(outcome=BookieOutcome.NOT_SENT, why="down"))
            return
        self._timeout = self._loop.call_later(
            timeout_s, self._answer, BookieAnswer(outcome=BookieOutcome.UNANSWERED, why="slow")
        )
        self._loop.call_later(self._delay(), self._arrive)

    def _is_reachable(self) -> bool:
        return self._model[self._bookie].is_up and self._bookie not in self._view.cut_off

    def _delay(self) -> float:
        random = self._model.random
        if random.random() < self._model.slow:
            return random.uniform(0.5, 12.0)
        return random.uniform(0.0, 2 * self._model.delay_s)

    def _arrive(self) -> None:
        if not self._is_reachable():
            self._answer(BookieAnswer(outcome=BookieOutcome.UNANSWERED, why="the connection ended"))
            return
        self._loop.call_later(self._delay(), self._return, self._model[self._bookie].serve(self._request))

    def _return(self, answer: BookieAnswer) -> None:
        held_back = self._model[self._bookie].held_back
        if held_back is not None:
            held_back.append(partial(self._return, answer))
        elif self._is_reachable():
            self._answer(answer)
        else:
            self._answer(BookieAnswer(outcome=BookieOutcome.UNANSWERED, why="the connection ended"))

    def _answer(self, answer: BookieAnswer) -> None:
        if self._done is not None:
            done, self._done = self._done, None
            done(answer)


class LostCreation(enum.Enum):
    """The outcome of the creation of a record that gets no answer."""

    DONE = enum.auto()
    NOT_DONE = enum.auto()
    SILENT = enum.auto()
    """The record is created. The client gets no answer and no error."""


class ModelMetadata:
    """Ledger metadata with compare-and-set. `lost` is the chance that the answer to a write is lost."""

    def __init__(self, random: Random, *, lost: float = 0.0, delay_s: float = 0.01) -> None:
        self._random = random
        self.lost = lost
        self.delay_s = delay_s
        self.is_down = False
        self.gate = asyncio.Event()
        self.gate.set()
        self.records: dict[int, tuple[bytes, int]] = {}
        self.lost_creation: LostCreation | None = None
        """The outcome of the next creation, which gets no answer. The model then resets this to None."""
        self._next_id = 0
        self._writes = 0

    async def new_ledger_id(self) -> int:
        await self._travel()
        self._next_id += 1
        return self._next_id - 1

    async def create(self, ledger_id: int, metadata: LedgerMetadata) -> Version | None:
        await self._travel()
        lost, self.lost_creation = self.lost_creation, None
        if ledger_id in self.records:
            return None
        version = self._put(ledger_id, metadata) if lost is not LostCreation.NOT_DONE else None
        if lost is LostCreation.SILENT:
            await asyncio.get_running_loop().create_future()
        if lost is not None:
            raise LedgerWriteError("no answer")
        return version

    async def read(self, ledger_id: int) -> Versioned[LedgerMetadata]:
        await self._travel()
        if ledger_id not in self.records:
            raise NoSuchLedgerError(f"there is no ledger {ledger_id}")
        content, version = self.records[ledger_id]
        return Versioned(decode_metadata(content), _version(version))

    async def write(self, ledger_id: int, metadata: LedgerMetadata, version: Version) -> Version:
        await self._travel()
        await self.gate.wait()
        if self._random.random() < self.lost:
            # The write may happen at any later time, or never.
            if self._random.random() < 0.7:
                later = self._random.choice([0.0, 0.0, 0.05, 1.0, 8.0])
                asyncio.get_running_loop().call_later(later, self._write_late, ledger_id, metadata, version)
            await asyncio.sleep(0.03)
            raise LedgerWriteError("no answer")
        return self._write(ledger_id, metadata, version)

    async def delete(self, ledger_id: int) -> None:
        await self._travel()
        self.records.pop(ledger_id, None)

    async def delete_at(self, ledger_id: int, version: Version) -> bool:
        await self._travel()
        if ledger_id in self.records and _version(self.records[ledger_id][1]) != version:
            return False
        self.records.pop(ledger_id, None)
        return True

    async def ledgers(self) -> AsyncIterator[int]:
        for ledger_id in sorted(self.records):
            yield ledger_id

    def current(self, ledger_id: int) -> LedgerMetadata:
        return decode_metadata(self.records[ledger_id][0])

    async def _travel(self) -> None:
        await asyncio.sleep(self._random.uniform(0.0, 2 * self.delay_s))
        if self.is_down:
            raise LedgerStoreUnavailableError("nobody answers")

    def _write_late(self, ledger_id: int, metadata: LedgerMetadata, version: Version) -> None:
        if ledger_id in self.records and _version(self.records[ledger_id][1]) == version:
            self._put(ledger_id, metadata)

    def _write(self, ledger_id: int, metadata: LedgerMetadata, version: Version) -> Version:
        if ledger_id not in self.records:
            raise NoSuchLedgerError(f"there is no ledger {ledger_id}")
        if _version(self.records[ledger_id][1]) != version:
            raise BadVersionError("another version")
        return self._put(ledger_id, metadata)

    def _put(self, ledger_id: int, metadata: LedgerMetadata) -> Version:
        self._writes += 1
        self.records[ledger_id] = encode_metadata(metadata), self._writes
        return _version(self._writes)


def _version(number: int) -> Version:
    return Version(b"m%d" % number)
