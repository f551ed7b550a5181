"""Kazoo's callbacks on one side, awaitable requests with deadlines on the other.

How kazoo 2.11 treats a request, which is what the outcomes here rest on:

- It goes into a queue, then over the socket, and its reply is matched first in, first out. So does ZooKeeper treat the
  requests of a session: an answer to a later request proves that every earlier one took effect or never will. After a
  loss, the server that a session or its successor connects to has settled what the old connection had sent.
- When the connection or the session is lost, everything queued or unanswered fails, whether or not it was sent. What is
  queued after that waits for the next connection and is sent then.
- It asks a server that says nothing whether it is there only while nobody else asks that server anything.
- Between the two steps by which an expired session is cleared, a request can vanish without any answer.

Therefore: nothing is submitted before there is a connection (NotAppliedError if there is none in time); whatever was
submitted and not answered is OutcomeUnknownError, even if kazoo only had it queued; and what is still open when a new
connection begins is given up too, so that nothing waits for an answer that cannot come. A server that answers none of
the requests under way for two thirds of a session, as long as kazoo would wait, is left for another.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionLoss,
    OperationTimeoutError,
    SessionExpiredError,
    SessionMovedError,
    ZookeeperError,
)
from kazoo.protocol.states import KazooState, KeeperState

from hedwig.clock import Deadline
from hedwig.outcomes import AbortedError, NotAppliedError, OutcomeUnknownError
from hedwig.zookeeper.handler import PromptHandler
from hedwig.zookeeper.options import BridgeOptions
from hedwig.zookeeper.requests import Request
from hedwig.zookeeper.tree_watch import TreeWatch, hear_events

__all__ = ["Bridge", "Connection"]

log = logging.getLogger(__name__)

_LOST: Final = (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionLoss,
    OperationTimeoutError,
    SessionExpiredError,
    SessionMovedError,
)
_CLOSED: Final = "the session with ZooKeeper was closed"
_TCP_MIN_S: Final = 1.0
_TCP_SHARE: Final = 1 / 8
"""Of the session: for how long a server whose machine may be off is waited for, so that there is time for another."""
_SILENCE_SHARE: Final = 2 / 3
_RECONNECT: Final = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0}
_REVIVE_PAUSE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Connection:
    """What a connection began with: its session, and how long the server keeps that without hearing of it."""

    session_id: int
    session_timeout_s: float


class Bridge:
    """One ZooKeeper session after another, for many requests in flight at once.

    `on_connected` is called in the event loop at the beginning of each connection, before any request is made of it.
    Watches are set for a connection: whoever has one sets it anew then. A TreeWatch is told the events of each
    connection from `listen` on, and of its end.
    """

    def __init__(
        self, hosts: str, options: BridgeOptions, on_connected: Callable[[Connection], None] | None = None
    ) -> None:
        self._hosts = hosts
        self._options = options
        self._on_connected = on_connected
        self._slots = asyncio.Semaphore(options.in_flight_max)
        self._loop = asyncio.get_running_loop()
        self._answers = 0
        self._silence: asyncio.TimerHandle | None = None
        self._inbox: deque[Callable[[], None]] = deque()
        self._watches: tuple[TreeWatch, ...] = ()
        self._woken = False
        self._calls: set[_Call] = set()
        self._connected = asyncio.Event()
        self._connection: Connection | None = None
        self._last_zxid = 0
        self._session: tuple[int, bytes] | None = None
        self._revival: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._client = self._start_client()

    async def connect(self) -> None:
        """Wait for the first connection. Raises NotAppliedError, naming the hosts, if none comes in time."""
        timeout_s = self._options.connect_timeout_s
        try:
            await self._wait_connected(Deadline.after(self._options.clock, timeout_s))
        except NotAppliedError as exc:
            raise NotAppliedError(f"no ZooKeeper at {self._hosts} answered within {timeout_s:g} s") from exc

    @property
    def hosts(self) -> str:
        return self._hosts

    @property
    def connection(self) -> Connection | None:
        """Return the connection that there is, as far as is known here; None between two."""
        return self._connection

    def drop_connection(self) -> None:
        """Leave a server that is silent, for another in the same session; what is under way is OutcomeUnknownError.

        The bridge does so by itself, for whoever has time to wait for that.
        """
        handler: PromptHandler = self._client.handler
        handler.drop_connection()

    def listen(self, watch: TreeWatch) -> None:
        """Tell `watch` the events that come; it is set with `watch_tree`. Telling it once more changes nothing."""
        if watch not in self._watches:
            self._watches = (*self._watches, watch)

    def ignore(self, watch: TreeWatch) -> None:
        """Undo `listen`."""
        self._watches = tuple(each for each in self._watches if each is not watch)

    @property
    def zxid_seen(self) -> int:
        """Return a zxid such that everything up to it happened before now; 0 if none is known."""
        self._last_zxid = max(self._last_zxid, self._client.last_zxid)
        return self._last_zxid

    async def send(self, deadline: Deadline, *requests: Request) -> list[Any]:
        """Submit `requests` back to back and return their results in order; an error answer is its exception.

        Raises: NotAppliedError - never submitted; OutcomeUnknownError - submitted, and one of them was not answered;
            AbortedError - the bridge was closed.
        """
        await self._take_slot(deadline)
        try:
            await self._wait_connected(deadline)
            self._check_open()
            call = _Call(len(requests), self._hosts, self._loop)
        except BaseException:
            self._slots.release()
            raise
        self._calls.add(call)
        if self._silence is None:
            self._listen_for_answers()
        for index, request in enumerate(requests):
            self._submit(call, index, request)
        try:
            async with asyncio.timeout(deadline.remaining_s()):
                return await call.answer
        except TimeoutError as exc:
            raise OutcomeUnknownError(f"ZooKeeper at {self._hosts} did not answer in time") from exc

    async def close(self) -> None:
        """End the session and its threads; requests under way raise AbortedError. May be called twice."""
        if self._closing is None:
            self._closing = self._loop.create_task(self._end())
            self._give_up(AbortedError(_CLOSED, sent=True))
            if self._silence is not None:
                self._silence.cancel()
            self._connected.set()  # Whoever waits for a connection finds that the bridge is closed.
        await asyncio.shield(self._closing)

    # ------------------------------------------------------------------------------------------- before submission

    async def _take_slot(self, deadline: Deadline) -> None:
        self._check_open()
        if not self._slots.locked():
            await self._slots.acquire()
            return
        try:
            async with asyncio.timeout(deadline.remaining_s()):
                await self._slots.acquire()
        except TimeoutError as exc:
            waiting = self._options.in_flight_max
            raise NotAppliedError(f"{waiting} requests are waiting for ZooKeeper at {self._hosts} already") from exc

    async def _wait_connected(self, deadline: Deadline) -> None:
        if deadline.expired:
            raise NotAppliedError(f"no time was left to ask ZooKeeper at {self._hosts}")
        if self._connected.is_set():
            return
        try:
            async with asyncio.timeout(deadline.remaining_s()):
                await self._connected.wait()
        except TimeoutError as exc:
            raise NotAppliedError(f"there is no connection to ZooKeeper at {self._hosts}") from exc

    def _check_open(self) -> None:
        if self._closing is not None:
            raise AbortedError(_CLOSED, sent=False)

    # ------------------------------------------------------------------------------ from kazoo's thread to the loop

    def _submit(self, call: "_Call", index: int, request: Request) -> None:
        request(self._client).rawlink(lambda done: self._post(lambda: self._settle(call, index, done)))

    def _post(self, handle: Callable[[], None]) -> None:
        """Hand over to the event loop, from any thread: one wake-up for all that gathers until the loop gets to it."""
        self._inbox.append(handle)
        if not self._woken:
            self._woken = True
            try:
                self._loop.call_soon_threadsafe(self._drain)
            except RuntimeError:
                # The loop ended without close(); nobody waits any more.
                return

    def _drain(self) -> None:
        # Before taking: what is added from here on either is taken below or wakes the loop again.
        self._woken = False
        while self._inbox:
            self._inbox.popleft()()

    def _settle(self, call: "_Call", index: int, done: Any) -> None:
        self._answers += 1
        if call.settle(index, done.value if done.exception is None else done.exception):
            self._forget(call)

    def _listen_for_answers(self) -> None:
        session_s = self._options.session_timeout_s if self._connection is None else self._connection.session_timeout_s
        self._silence = self._loop.call_later(
            session_s * _SILENCE_SHARE, self._end_silence, self._answers, self._connection
        )

    def _end_silence(self, answers: int, connection: Connection | None) -> None:
        """Leave a server that has not answered anything since, though something was asked all the time."""
        self._silence = None
        if not self._calls or self._closing is not None:
            return
        if answers == self._answers and connection is not None and connection is self._connection:
            log.warning("ZooKeeper at %s is silent; it is left for another server", self._hosts)
            self.drop_connection()
        self._listen_for_answers()

    def _forget(self, call: "_Call") -> None:
        if call in self._calls:
            self._calls.remove(call)
            self._slots.release()

    def _give_up(self, error: Exception) -> None:
        for call in list(self._calls):
            call.fail(error)
            self._forget(call)

    # ------------------------------------------------------------------------------------------------- the session

    def _start_client(self) -> KazooClient:
        # A client that takes over from one that ended takes its session too: only a session that goes on, or that the
        # server has expired, settles what was sent in it.
        client = KazooClient(
            hosts=self._hosts,
            timeout=self._options.session_timeout_s,
            client_id=self._session,
            handler=PromptHandler(max(_TCP_MIN_S, self._options.session_timeout_s * _TCP_SHARE)),
            connection_retry=dict(_RECONNECT),
        )
        hear_events(client, self._hear)
        client.add_listener(lambda state: self._listen(client, state))
        client.start_async()
        return client

    def _hear(self, path: str) -> None:
        """Hear of an event, in kazoo's thread."""
        for watch in self._watches:
            watch.note(path)

    def _listen(self, client: KazooClient, state: str) -> None:
        """Hear of a state, in kazoo's thread: the session has to be noted before the next one can begin."""
        if state != KazooState.CONNECTED:
            # Here and now: before there is another connection, on which a request could be answered.
            for watch in self._watches:
                watch.lose(f"the connection to ZooKeeper at {self._hosts} was lost")
        session = client.client_id if state == KazooState.CONNECTED else None
        timeout_s: float = client.handler.session_timeout_s
        self._post(lambda: self._on_state(client, state, session, timeout_s))

    def _on_state(self, client: KazooClient, state: str, session: tuple[int, bytes] | None, timeout_s: float) -> None:
        if self._closing is not None or client is not self._client:
            return
        if session is not None:
            log.info("connected to ZooKeeper at %s", self._hosts)
            self._session = session
            self._connection = Connection(session[0], timeout_s)
            self._give_up(OutcomeUnknownError(f"the connection to ZooKeeper at {self._hosts} was replaced"))
            self._connected.set()
            if self._on_connected is not None:
                self._on_connected(self._connection)
            return
        log.warning("the connection to ZooKeeper at %s is %s", self._hosts, state.lower())
        self._connected.clear()
        self._connection = None
        # Kazoo reconnects by itself, but for an answer that it cannot read: then its thread has ended for good.
        ended = client.client_state in (KeeperState.CLOSED, KeeperState.AUTH_FAILED)
        if state == KazooState.LOST and ended and self._revival is None:
            self._revival = self._loop.create_task(self._revive())

    async def _revive(self) -> None:
        await self._in_thread(_end_client, self._client)
        await self._options.clock.sleep(_REVIVE_PAUSE_S)
        if self._closing is None:
            self._give_up(OutcomeUnknownError(f"the client ended that asked ZooKeeper at {self._hosts}"))
            self._client = self._start_client()
        self._revival = None

    async def _end(self) -> None:
        if self._revival is not None:
            await asyncio.wait([self._revival])
        await self._in_thread(_end_client, self._client)

    async def _in_thread(self, work: Callable[[KazooClient], None], client: KazooClient) -> None:
        """Run what blocks in a thread of its own, which leaves none idle behind."""
        done = asyncio.Event()

        def run() -> None:
            try:
                work(client)
            except Exception:
                log.exception("ending a ZooKeeper session failed")
            self._post(done.set)

        thread = threading.Thread(target=run, name="zookeeper-close", daemon=True)
        thread.start()
        await done.wait()
        thread.join()  # It has nothing left to do.


class _Call:
    """Requests submitted together to the servers at `hosts`, and the future of their results."""

    __slots__ = ("_hosts", "_missing", "_results", "answer")

    def __init__(self, size: int, hosts: str, loop: asyncio.AbstractEventLoop) -> None:
        self._hosts = hosts
        self._results: list[Any] = [None] * size
        self._missing = size
        self.answer: asyncio.Future[list[Any]] = loop.create_future()

    def settle(self, index: int, result: Any) -> bool:
        """Note one result; return whether all are there."""
        self._results[index] = result
        self._missing -= 1
        if self._missing == 0 and not self.answer.done():
            self._conclude()
        return self._missing == 0

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)

    def _conclude(self) -> None:
        for result in self._results:
            # What is no error of ZooKeeper's is a reply that kazoo could not read.
            if isinstance(result, _LOST) or (isinstance(result, Exception) and not isinstance(result, ZookeeperError)):
                lost = OutcomeUnknownError(
                    f"the connection to ZooKeeper at {self._hosts} was lost ({type(result).__name__})"
                )
                self.answer.set_exception(lost)
                return
        self.answer.set_result(self._results)


def _end_client(client: KazooClient) -> None:
    client.stop()
    client.close()
