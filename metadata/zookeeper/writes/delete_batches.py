"""Deleting many children of one node at once.

Every delete moves the guard of its neighbours. Of deletes sent side by side, one would win, and all others would look
and try again. The number of requests would grow with the square of the number of deletes. So the deletes under one
parent wait in one queue. Those that arrive while one transaction is under way go into the next.

A delete may use a later guard than its caller saw, if every step in between was an answered transaction of this queue.
Such transactions are known to have created nothing. After one step by another writer the guard does not match.
"""

import asyncio
from collections import deque
from typing import Final

from kazoo.exceptions import BadVersionError, NoNodeError

from hedwig.clock import Deadline
from hedwig.metadata.zookeeper.records.paths import RecordPath
from hedwig.metadata.zookeeper.transactions import delete_guarded
from hedwig.metadata.zookeeper.writes.guarded_read import answer
from hedwig.metadata.zookeeper.writes.tokens import Tokens
from hedwig.outcomes import NotAppliedError, OutcomeUnknownError
from hedwig.zookeeper import Bridge, refusal_of

__all__ = ["DeleteBatches", "DeleteTicket"]

_DELETES_MAX: Final = 128
_PATH_CHARS_MAX: Final = 128 * 1024
"""The most characters of paths in one transaction: at four bytes each they are half of ZooKeeper's packet limit."""


class DeleteTicket:
    """One delete on its way through a queue.

    `guard` is the caller's at first, then the one that was sent. `mark` is the content of the parent if the delete was
    applied; it is None before the delete is sent.
    """

    __slots__ = ("answer", "data_version", "deadline", "guard", "mark", "record_path")

    def __init__(self, record_path: RecordPath, data_version: int, guard: int, deadline: Deadline) -> None:
        self.record_path = record_path
        self.data_version = data_version
        self.guard = guard
        self.deadline = deadline
        self.mark: bytes | None = None
        self.answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()


class DeleteBatches:
    """The queues of one open store. A queue exists while it has deletes to send."""

    def __init__(self, bridge: Bridge, tokens: Tokens) -> None:
        self._bridge = bridge
        self._tokens = tokens
        self._queues: dict[str, _Queue] = {}
        self._runs: set[asyncio.Task[None]] = set()

    async def delete(self, ticket: DeleteTicket) -> bool:
        """Delete the node if it is at the ticket's data version, and its parent at the guard or an equivalent one.

        Returns: whether it was deleted; False does not say which condition failed.
        Raises: as Bridge.send.
        """
        parent = ticket.record_path.parent
        queue = self._queues.get(parent)
        if queue is None:
            queue = self._queues[parent] = _Queue(self._bridge, self._tokens)
            queue.add(ticket)
            run = asyncio.create_task(self._run(parent, queue))
            self._runs.add(run)
            run.add_done_callback(self._runs.discard)
        else:
            queue.add(ticket)
        try:
            async with asyncio.timeout(ticket.deadline.remaining_s()):
                return await ticket.answer
        except TimeoutError as exc:
            servers = f"ZooKeeper at {self._bridge.hosts}"
            if ticket.mark is None:
                raise NotAppliedError(f"other deletes under the same node in {servers} used up the time") from exc
            raise OutcomeUnknownError(f"{servers} did not answer in time") from exc

    async def close(self) -> None:
        """Wait for the transactions under way. Close the bridge first, so that they end at once."""
        await asyncio.gather(*self._runs)

    async def _run(self, parent: str, queue: "_Queue") -> None:
        try:
            await queue.run()
        finally:
            del self._queues[parent]


class _Queue:
    """The deletes under one parent: one transaction under way, the others waiting."""

    def __init__(self, bridge: Bridge, tokens: Tokens) -> None:
        self._bridge = bridge
        self._tokens = tokens
        self._waiting: deque[DeleteTicket] = deque()
        # The parent's version after our last answered transaction, and the version since which every step was ours.
        self._guard = -1
        self._guard_since: int | None = None

    def add(self, ticket: DeleteTicket) -> None:
        self._waiting.append(ticket)

    async def run(self) -> None:
        """Send transactions until no delete waits."""
        while batch := self._next_batch():
            mark = self._tokens.new()
            guard = batch[0].guard
            for ticket in batch:
                ticket.mark = mark
            request = delete_guarded(
                batch[0].record_path.parent,
                mark,
                guard,
                [(ticket.record_path.path, ticket.data_version) for ticket in batch],
            )
            try:
                # The latest deadline: if the bridge has no slot or connection by then, no delete of the batch is sent.
                (results,) = await self._bridge.send(
                    max((ticket.deadline for ticket in batch), key=_remaining), request
                )
                refusal = refusal_of(results)
                answer(refusal, BadVersionError, NoNodeError)  # Any other error concerns all of them.
            except Exception as exc:
                self._guard_since = None
                for ticket in batch:
                    _fail(ticket, exc)
                continue
            if refusal is None:
                self._note_step(guard)
                for ticket in batch:
                    _conclude(ticket, True)
            else:
                self._refuse(batch, results.index(refusal))

    def _next_batch(self) -> list[DeleteTicket]:
        """Take as many waiting deletes as can go under one guard, and set that guard in them.

        Deletes of one node go one after the other. Together they are refused; each that is refused looks, finds the
        node, and is back before the next transaction. So none would ever be done.
        """
        batch: list[DeleteTicket] = []
        paths: set[str] = set()
        later: deque[DeleteTicket] = deque()
        chars = 0
        while self._waiting and len(batch) < _DELETES_MAX:
            ticket = self._waiting.popleft()
            if ticket.answer.done():
                continue  # Given up by its caller before it was sent.
            if self._guard_since is not None and self._guard_since <= ticket.guard:
                ticket.guard = self._guard
            path = ticket.record_path.path
            is_full = chars + len(path) > _PATH_CHARS_MAX
            if batch and (is_full or path in paths or ticket.guard != batch[0].guard):
                later.append(ticket)
                continue
            chars += len(path)
            paths.add(path)
            batch.append(ticket)
        self._waiting.extendleft(reversed(later))
        return batch

    def _note_step(self, guard: int) -> None:
        if self._guard_since is None or guard != self._guard:
            self._guard_since = guard
        self._guard = guard + 1

    def _refuse(self, batch: list[DeleteTicket], index: int) -> None:
        """Refuse the delete that failed, or all if the guard did. None was applied, so the others wait again."""
        if index == 0:
            self._guard_since = None
            for ticket in batch:
                _conclude(ticket, False)
            return
        _conclude(batch.pop(index - 1), False)
        for ticket in batch:
            ticket.mark = None
        self._waiting.extendleft(reversed(batch))


def _remaining(deadline: Deadline) -> float:
    return deadline.remaining_s()


def _conclude(ticket: DeleteTicket, deleted: bool) -> None:
    if not ticket.answer.done():
        ticket.answer.set_result(deleted)


def _fail(ticket: DeleteTicket, error: Exception) -> None:
    if not ticket.answer.done():
        ticket.answer.set_exception(error)
