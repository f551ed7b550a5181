"""The requests of a hub process that is killed, or stands still, at one of them."""

import asyncio
import enum
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from hedwig.hub.ledgers import LedgerStore
from hedwig.hub.ledgers.store import InDoubt
from hedwig.metadata import NamedRecords

__all__ = ["Fate", "Process"]

T = TypeVar("T")


class Fate(enum.Enum):
    """What happens to a process at one of its requests."""

    KILLED_BEFORE = "killed before"
    KILLED_BEHIND = "killed behind"
    """The request is carried out, and nobody learns of it."""
    STOPPED_BEFORE = "stopped before"
    STOPPED_BEHIND = "stopped behind"
    """The request is carried out, and the process learns of it once it goes on."""

    @property
    def is_kill(self) -> bool:
        return self in (Fate.KILLED_BEFORE, Fate.KILLED_BEHIND)

    @property
    def is_behind(self) -> bool:
        return self in (Fate.KILLED_BEHIND, Fate.STOPPED_BEHIND)


class Process:
    """Counts the requests of one hub. `fate` meets it at request `at`, counted from 0.

    Of a process that was killed, no later request is carried out, and no task goes on. One that was stopped waits, with
    all of its requests, until `go_on`.
    """

    def __init__(self, at: int, fate: Fate) -> None:
        self._at = at
        self._fate = fate
        self._requests = 0
        self.is_met = asyncio.Event()
        """Set once its fate has met it."""
        self._may_go_on = asyncio.Event()

    def go_on(self) -> None:
        """Let a process that was stopped go on."""
        self._may_go_on.set()

    def ledgers(self, store: LedgerStore) -> LedgerStore:
        """Return a store as this process uses it."""
        return cast(LedgerStore, _Ledgers(store, self))

    def names(self, records: NamedRecords) -> NamedRecords:
        """Return named records as this process uses them."""
        return _Names(records, self)

    async def request(self, send: Callable[[], Awaitable[T]]) -> T:
        """Send a request, unless the process is killed before; return the answer, unless it is killed behind."""
        fate = self._next()
        if fate is not None and fate.is_behind:
            answer = await send()
            self.is_met.set()
            await self._stand()
            return answer
        if fate is not None:
            self.is_met.set()
        await self._stand()
        return await send()

    def append(self, send: Callable[[], "asyncio.Future[None]"]) -> "asyncio.Future[None]":
        """Begin an append, as `request` sends a request. Whether it is carried out is decided at once."""
        fate = self._next()
        if fate is None and not self.is_met.is_set():
            return send()
        sent = send() if fate is not None and fate.is_behind else None
        self.is_met.set()

        async def go_on() -> None:
            await self._stand()
            await (send() if sent is None else sent)

        append = asyncio.ensure_future(go_on())
        append.add_done_callback(lambda done: done.cancelled() or done.exception())
        return append

    def _next(self) -> Fate | None:
        number, self._requests = self._requests, self._requests + 1
        return self._fate if number == self._at else None

    async def _stand(self) -> None:
        """Stand still if the fate has met the process; end the task if that was killed."""
        if not self.is_met.is_set():
            return
        if self._fate.is_kill:
            raise asyncio.CancelledError
        await self._may_go_on.wait()


class _Ledgers:
    """As LedgerStore."""

    def __init__(self, store: LedgerStore, process: Process) -> None:
        self._store = store
        self._process = process

    async def create(self, about: Mapping[str, bytes] | None = None, in_doubt: InDoubt | None = None) -> int:
        return await self._process.request(lambda: self._store.create(about, in_doubt))

    def start_append(self, ledger_id: int, entry_id: int, payload: bytes) -> "asyncio.Future[None]":
        return self._process.append(lambda: self._store.start_append(ledger_id, entry_id, payload))

    async def append(self, ledger_id: int, entry_id: int, payload: bytes) -> None:
        await self.start_append(ledger_id, entry_id, payload)

    async def open_and_fence(self, ledger_id: int) -> int:
        return await self._process.request(lambda: self._store.open_and_fence(ledger_id))

    async def close(self, ledger_id: int) -> int:
        return await self._process.request(lambda: self._store.close(ledger_id))

    async def read(self, ledger_id: int, first_entry_id: int, *, entries_max: int, bytes_max: int) -> list[bytes]:
        return await self._process.request(
            lambda: self._store.read(ledger_id, first_entry_id, entries_max=entries_max, bytes_max=bytes_max)
        )

    async def last_entry_id(self, ledger_id: int) -> int:
        return await self._process.request(lambda: self._store.last_entry_id(ledger_id))

    async def delete(self, ledger_id: int) -> None:
        await self._process.request(lambda: self._store.delete(ledger_id))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class _Names:
    """As NamedRecords."""

    def __init__(self, records: NamedRecords, process: Process) -> None:
        self._records = records
        self._process = process

    async def read(self, name: str) -> bytes | None:
        return await self._process.request(lambda: self._records.read(name))

    async def replace(self, name: str, expected: bytes | None, value: bytes) -> bool:
        return await self._process.request(lambda: self._records.replace(name, expected, value))

    async def delete(self, name: str, expected: bytes) -> bool:
        return await self._process.request(lambda: self._records.delete(name, expected))

    async def names(self, prefix: str) -> Sequence[str]:
        return await self._process.request(lambda: self._records.names(prefix))
