"""Kazoo's callbacks on one side, awaitable requests with deadlines on the other.

The outcomes here rest on how kazoo 2.11 treats a request:

- The request goes into a queue, then over the socket, and kazoo matches replies first in, first out. ZooKeeper treats
  the requests of a session in the same order. So an answer to a later request proves that every earlier one took effect
  or never will. After a loss, the next server of the session or of its successor has settled all requests that the old
  connection had sent.
- When the connection or the session is lost, every queued or unanswered request fails, whether or not it was sent. A
  request that is queued after that waits for the next connection and is sent then.
- Kazoo pings a silent server only while it has no other request for that server.
- An expired session is cleared in two steps. Between them, a request can vanish without any answer.

Therefore:

- A request is submitted only when there is a connection (NotAppliedError if there is none in time).
- A request that was submitted and not answered is OutcomeUnknownError, even if kazoo had only queued it.
- A request that is still open when a new connection begins is given up too, since its answer cannot come any more.
- A server that answers no request under way for two thirds of a session is left for another. Kazoo would wait as long.
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
from hedwig.zookeeper.acl import acl_of
from hedwig.zookeeper.handler import PromptHandler
from hedwig.zookeeper.options import BridgeOptions
from hedwig.zookeeper.requests import Request
from hedwig.zookeeper.tree_watch import TreeWatch, hear_events

__all__ = ["Bridge", "NewSession"]

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
"""The share of a session to wait for a TCP connection. If the server's machine is off, there is time for another."""
_SILENCE_SHARE: Final = 2 / 3
_RECONNECT: Final = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0}
_REVIVE_PAUSE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class NewSession:
    """The session of a new connection, and for how long the server keeps a silent session."""

    session_id: int
    session_timeout_s: float


class Bridge:
    """One ZooKeeper session after another, for many requests in flight at once.

    `on_connected` is called in the event loop at the beginning of each connection, before any request on it. Watches
    belong to a connection, so the callback must set them anew. A TreeWatch receives the events of each connection from
    `listen` on, and its end.
    """

    def __init__(
        self, hosts: str, options: BridgeOptions, on_connected: Callable[[NewSession], None] | None = None
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
        self._connection: NewSession | None = None
        self._last_zxid = 0
        self._session: tuple[int, bytes] | None = None
        self._revival: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._client = self._start_client()

    async def connect(self) -> None:
        """Wait for the first connection. Raises NotAppliedError, naming the hosts, if there is none in time."""
        timeout_s = self._options.connect_timeout_s
        try:
            await self._wait_connected(Deadline.after(self._options.clock, timeout_s))
        except NotAppliedError as exc:
            handler: PromptHandler = self._client.handler
            why = f": {handler.failure}" if handler.failure else ""
            raise NotAppliedError(f"no ZooKeeper at {self._hosts} answered within {timeout_s:g} s{why}") from exc

    @property
    def hosts(self) -> str:
        return self._hosts

    @property
    def connection(self) -> NewSession | None:
        """Return the current connection, as far as the event loop knows; None between two connections."""
        return self._connection

    def drop_connection(self) -> None:
        """Leave a silent server for another, in the same session. Requests under way raise OutcomeUnknownError.

        The bridge does so by itself after two thirds of a session. This is for callers that cannot wait so long.
        """
        handler: PromptHandler = self._client.handler
        handler.drop_connection()

    def listen(self, watch: TreeWatch) -> None:
        """Pass events on to `watch`, which is set with `watch_tree`. A second call changes nothing."""
        if watch not in self._watches:
            self._watches = (*self._watches, watch)

    def ignore(self, watch: TreeWatch) -> None:
        """Undo `listen`."""
        self._watches = tuple(each for each in self._watches if each is not watch)

    @property
    def zxid_seen(self) -> int:
        """Return a zxid up to which everything has happened before now; 0 if none is known."""
        self._last_zxid = max(self._last_zxid, self._client.last_zxid)
        return self._last_zxid

    async def send(self, deadline: Deadline, *requests: Request) -> list[Any]:
        """Submit `requests` back to back; return their results in order. An error answer is an exception as result.

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
            self._connected.set()  # Callers that wait for a connection notice that the bridge is closed.
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
            raise NotAppliedError(f"{waiting} requests already wait for ZooKeeper at {self._hosts}") from exc

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
        """Run `handle` in the event loop; from any thread. One wake-up serves all handles until the loop runs them."""
        self._inbox.append(handle)
        if not self._woken:
            self._woken = True
            try:
                self._loop.call_soon_threadsafe(self._drain)
            except RuntimeError:
                # The loop ended without close(), so no caller waits any more.
                return

    def _drain(self) -> None:
        # Reset before taking: a handle added from here on is either taken below or wakes the loop again.
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

    def _end_silence(self, answers: int, connection: NewSession | None) -> None:
        """Leave a server that has answered nothing since the timer was set, although requests were always under way."""
        self._silence = None
        if not self._calls or self._closing is not None:
            return
        if answers == self._answers and connection is not None and connection is self._connection:
            log.warning("ZooKeeper at %s is silent; the client tries another server", self._hosts)
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
        # A client that replaces an ended one continues its session. Requests are settled only if their session goes on
        # or the server has expired it.
        access = self._options.access
        client = KazooClient(
            hosts=self._hosts,
            timeout=self._options.session_timeout_s,
            client_id=self._session,
            handler=PromptHandler(max(_TCP_MIN_S, self._options.session_timeout_s * _TCP_SHARE), access.tls),
            connection_retry=dict(_RECONNECT),
            auth_data=[("digest", _Hidden(login)) for login in access.logins],
            default_acl=acl_of(access),
        )
        hear_events(client, self._hear)
        client.add_listener(lambda state: self._listen(client, state))
        client.start_async()
        return client

    def _hear(self, path: str) -> None:
        """Receive an event, in kazoo's thread."""
        for watch in self._watches:
            watch.note(path)

    def _listen(self, client: KazooClient, state: str) -> None:
        """Receive a state, in kazoo's thread, since the session must be recorded before the next one can begin."""
        if state != KazooState.CONNECTED:
            # At once, before there is another connection on which a request could be answered.
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
            self._connection = NewSession(session[0], timeout_s)
            self._give_up(OutcomeUnknownError(f"the connection to ZooKeeper at {self._hosts} was replaced"))
            self._connected.set()
            if self._on_connected is not None:
                self._on_connected(self._connection)
            return
        log.warning("the connection to ZooKeeper at %s is %s", self._hosts, state.lower())
        self._connected.clear()
        self._connection = None
        # Kazoo reconnects by itself, except after an answer that it cannot read. Then its thread has ended for good.
        ended = client.client_state in (KeeperState.CLOSED, KeeperState.AUTH_FAILED)
        if state == KazooState.LOST and ended and self._revival is None:
            self._revival = self._loop.create_task(self._revive())

    async def _revive(self) -> None:
        await self._in_thread(_end_client, self._client)
        await self._options.clock.sleep(_REVIVE_PAUSE_S)
        if self._closing is None:
            self._give_up(OutcomeUnknownError(f"the client of ZooKeeper at {self._hosts} ended"))
            self._client = self._start_client()
        self._revival = None

    async def _end(self) -> None:
        if self._revival is not None:
            await asyncio.wait([self._revival])
        await self._in_thread(_end_client, self._client)

    async def _in_thread(self, work: Callable[[KazooClient], None], client: KazooClient) -> None:
        """Run blocking work in a thread of its own, so that no idle thread stays behind."""
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
        thread.join()  # The thread is at its end, so this does not block.


class _Call:
    """Requests submitted together to the servers at `hosts`, and the future of their results."""

    __slots__ = ("_hosts", "_missing", "_results", "answer")

    def __init__(self, size: int, hosts: str, loop: asyncio.AbstractEventLoop) -> None:
        self._hosts = hosts
        self._results: list[Any] = [None] * size
        self._missing = size
        self.answer: asyncio.Future[list[Any]] = loop.create_future()

    def settle(self, index: int, result: Any) -> bool:
        """Record one result; return whether all have arrived."""
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
            # An exception that is no error of ZooKeeper means that kazoo could not read the reply.
            if isinstance(result, _LOST) or (isinstance(result, Exception) and not isinstance(result, ZookeeperError)):
                lost = OutcomeUnknownError(
                    f"the connection to ZooKeeper at {self._hosts} was lost ({type(result).__name__})"
                )
                self.answer.set_exception(lost)
                return
        self.answer.set_result(self._results)


class _Hidden(str):
    """A secret whose repr hides it, since kazoo writes the repr of every request into its log at the level debug."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


def _end_client(client: KazooClient) -> None:
    client.stop()
    client.close()
