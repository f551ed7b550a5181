"""A network in memory. Connections between clients and hubs take time, stall, and break, as a seed decides."""

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any, Final, TypeVarTuple, cast

from tests.support.virtual_time import VirtualLoop, VirtualTime

__all__ = ["MACHINE", "Network", "NetworkedLoop", "NetworkedTime", "SpinningError"]

MACHINE: Final = contextvars.ContextVar("MACHINE", default="nowhere")
"""The name of the machine on which the task runs."""

Ts = TypeVarTuple("Ts")

_HIGH: Final = 64 * 1024
_TURNS_MAX: Final = 100_000
"""More turns of the loop than any sound run takes. Sound runs take up to 15,000."""

_Listener = Callable[[], asyncio.Protocol]


class SpinningError(Exception):
    """The loop runs without an end, while virtual time stands still or hardly passes."""


class Network:
    """Which machines listen, which reach each other, and how long bytes are on their way.

    `any_host` is a name that leads to any machine that listens.
    """

    any_host: Final = "any"

    def __init__(self, random: Random, delay_s: float) -> None:
        self.random = random
        self.delay_s = delay_s
        self.cut: set[tuple[str, str]] = set()
        """Pairs (client, hub) between which nothing passes."""
        self._listeners: dict[str, _Listener] = {}
        self.connections: dict[_End, None] = {}
        """Every end of a connection that is not closed."""
        self._numbers = 0

    def listen(self, host: str, protocol_factory: _Listener) -> None:
        self._listeners[host] = protocol_factory

    def stop_listening(self, host: str) -> None:
        """Refuse new connections to a machine."""
        self._listeners.pop(host, None)

    def is_listening(self, host: str) -> bool:
        return host in self._listeners

    def is_cut(self, machine: str, host: str) -> bool:
        return (machine, host) in self.cut or (host, machine) in self.cut

    def heal(self) -> None:
        """Let all bytes pass again, including those that were held up."""
        self.cut.clear()
        self._go_on()

    def mend(self, machine: str, host: str) -> None:
        """Let bytes pass between two machines again."""
        self.cut.discard((machine, host))
        self._go_on()

    def _go_on(self) -> None:
        for end in list(self.connections):
            end.go_on()
            end.peer.go_on()

    def break_connections(self, host: str) -> None:
        """End every connection of a machine, as if its process had ended."""
        for end in [end for end in self.connections if end.machine == host]:
            end.abort()

    async def connect(self, factory: Callable[[], asyncio.Protocol], host: str) -> tuple["_End", asyncio.Protocol]:
        """Open a connection from the machine of the running task. Raises ConnectionRefusedError."""
        machine = MACHINE.get()
        await asyncio.sleep(self.delay())
        if host == self.any_host:
            reached = [name for name in self._listeners if not self.is_cut(machine, name)]
            host = self.random.choice(reached) if reached else host
        while self.is_cut(machine, host):  # noqa: ASYNC110 (time is virtual, and each waiting task has a deadline)
            await asyncio.sleep(1.0)
        if host not in self._listeners:
            raise ConnectionRefusedError(f"nobody listens on {host}")
        self._numbers += 1
        theirs = contextvars.copy_context()
        theirs.run(MACHINE.set, host)
        here = _End(self, machine, contextvars.copy_context(), (host, self._numbers))
        there = _End(self, host, theirs, (machine, self._numbers))
        here.peer, there.peer = there, here
        protocol = factory()
        here.set_protocol(protocol)
        there.set_protocol(theirs.run(self._listeners[host]))
        self.connections[here] = self.connections[there] = None
        theirs.run(there.protocol.connection_made, there)
        protocol.connection_made(here)
        return here, protocol

    def delay(self) -> float:
        return self.random.uniform(0.0, 2 * self.delay_s)


class _Socket:
    """The little that hubs and clients use of a socket."""

    def setsockopt(self, *_: object) -> None:
        return None


class _End(asyncio.Transport):
    """One end of a connection. What it writes arrives at its peer in order, and late or never."""

    peer: "_End"

    def __init__(self, network: Network, machine: str, context: contextvars.Context, peername: tuple[str, int]) -> None:
        super().__init__({"peername": peername, "socket": _Socket()})
        self.machine = machine
        self._network = network
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._on_their_way: deque[bytes | None] = deque()
        """What was written and the peer has not taken; None is the end of the stream."""
        self._due = 0
        """How many of these have arrived at the peer."""
        self._arrives_at = 0.0
        self._unsent = 0
        self._high = _HIGH
        self._is_full = False
        self._reads = True
        self._is_closing = False
        self._is_aborted = False
        self._is_lost = False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = cast(asyncio.Protocol, protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self.protocol

    def is_closing(self) -> bool:
        return self._is_closing

    def is_reading(self) -> bool:
        return self._reads

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = _HIGH if high is None else high

    def get_write_buffer_size(self) -> int:
        return self._unsent

    def write(self, data: Any) -> None:
        if not self._is_closing:
            self._unsent += len(data)
            self._put(bytes(data))
            if self._unsent > self._high and not self._is_full:
                self._is_full = True
                self.protocol.pause_writing()

    def close(self) -> None:
        """End the connection after all that was written."""
        if not self._is_closing:
            self._is_closing = True
            self._put(None)

    def abort(self) -> None:
        """End the connection at once; what is on its way may not arrive."""
        self._is_closing = self._is_aborted = True
        self._on_their_way.clear()
        self._later(self.lose, None)
        self._later(self.go_on)

    def pause_reading(self) -> None:
        self._reads = False

    def resume_reading(self) -> None:
        self._reads = True
        self._later(self.peer.go_on)

    def lose(self, error: Exception | None) -> None:
        """Tell the protocol that the connection has ended."""
        self._is_closing = True
        if not self._is_lost:
            self._is_lost = True
            self._network.connections.pop(self, None)
            self.protocol.connection_lost(error)

    def go_on(self) -> None:
        """Hand over what has arrived, as far as the peer takes it."""
        peer = self.peer
        if self._is_aborted and not self._network.is_cut(self.machine, peer.machine):
            self._later(peer.lose, ConnectionResetError("reset by the peer"))
            return
        while self._due and self._on_their_way and not self._network.is_cut(self.machine, peer.machine):
            if peer._is_closing:
                # A machine answers with a reset if bytes arrive for a connection that it has closed.
                self._on_their_way.clear()
                self._later(self.lose, ConnectionResetError("reset by the peer") if not self._is_closing else None)
                return
            if not peer._reads:
                return
            data = self._on_their_way.popleft()
            self._due -= 1
            if data is None:
                self._later(self.lose, None)
                peer._context.run(peer._take_end)
                return
            self._unsent -= len(data)
            if self._is_full and 4 * self._unsent <= self._high:
                self._is_full = False
                self._later(self.protocol.resume_writing)
            peer._context.run(peer.protocol.data_received, data)

    def _take_end(self) -> None:
        if not self.protocol.eof_received():
            self.close()

    def _put(self, data: bytes | None) -> None:
        self._on_their_way.append(data)
        self._arrives_at = max(self._arrives_at, self._loop.time() + self._network.delay())
        self._loop.call_at(self._arrives_at, self._arrive, context=self._context)

    def _arrive(self) -> None:
        self._due += 1
        self.go_on()

    def _later(self, work: Callable[..., object], *arguments: object) -> None:
        owner = getattr(work, "__self__", None)
        context = owner._context if isinstance(owner, _End) else self._context
        self._loop.call_soon(work, *arguments, context=context)


class NetworkedTime(VirtualTime):
    """Virtual time, on a loop whose connections are those of a network in memory."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network
        self.on_turn: Callable[[], object] | None = None
        """What is called after each turn of the loop."""

    def loop(self) -> asyncio.AbstractEventLoop:
        return NetworkedLoop(self)


class NetworkedLoop(VirtualLoop):
    """A virtual loop that never polls the system, since no event comes from outside.

    Timers for the same moment run in the order in which they were made.
    """

    _ready: deque[asyncio.Handle]
    _stopping: bool
    _virtual: "NetworkedTime"

    def __init__(self, time: NetworkedTime) -> None:
        super().__init__(time)
        self._network = time.network
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._made = 0
        self.turns = 0
        """The turns that this loop has made."""

    async def create_connection(self, protocol_factory: Any, host: Any = None, *_: Any, **__: Any) -> Any:
        return await self._network.connect(protocol_factory, host)

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._virtual.seconds + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._made += 1
        heappush(self._timers, (when, self._made, handle))
        return handle

    def _run_once(self) -> None:
        ready, timers, time = self._ready, self._timers, self._virtual
        if not ready and not self._stopping:
            while timers and timers[0][2].cancelled():
                heappop(timers)
            assert timers, "everybody waits, and nothing will ever come"
            time.seconds = max(time.seconds, timers[0][0])
        self.turns += 1
        if self.turns % _TURNS_MAX == 0:
            raise SpinningError(f"something goes round and round at {time.seconds - 1000:.4f}")
        while timers and timers[0][0] <= time.seconds:
            ready.append(heappop(timers)[2])
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()
        if time.on_turn is not None:
            time.on_turn()
