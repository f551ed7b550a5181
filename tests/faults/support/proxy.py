"""A TCP proxy that loses, delays and withholds messages between a client and its server, as a plan tells it.

The proxy calls the plan once for each request, in the order in which requests arrive, and the plan returns a step.
The proxy counts requests by name, so a plan can choose the n-th write. A random plan draws from a seeded source.
"""

import asyncio
import contextlib
import functools
import random
import socket
import ssl
import struct
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

from hedwig.cli.dev.certificates import SERVER
from hedwig.store_access import StoreAccess
from tests.faults.support.wires import Request, Wire
from tests.support.endings import end_all

__all__ = ["PASS", "Action", "Exchange", "Plan", "Proxy", "Step", "at_random", "mute_from", "scripted"]

_LOOPBACK: Final = "127.0.0.1"
_CHUNK: Final = 1 << 16
_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER on, with a time of 0: closing the socket sends a reset."""


class Action(StrEnum):
    """What to do with one request and its reply. A cut resets the client's connection."""

    PASS = "pass"
    CUT_REQUEST = "cut before the request is forwarded"
    CUT_REPLY = "cut after the request was answered, before the reply is forwarded"
    DELAY_REQUEST = "forward the request later"
    DELAY_REPLY = "forward the reply later"
    HOLD_REQUEST = "forward the request only when released, even if the client has given up by then"
    HOLD_REPLY = "forward the request, and nothing back on this connection any more"


@dataclass(frozen=True, slots=True)
class Step:
    """One action. A delay lasts `seconds`; before a cut, `meanwhile` runs to its end."""

    action: Action
    seconds: float = 0.0
    meanwhile: Callable[[], Awaitable[Any]] | None = None


PASS: Final = Step(Action.PASS)


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request as a plan sees it: its name, and the number of requests of that name up to this one."""

    name: str
    number: int


Plan: TypeAlias = Callable[[Exchange], Step]


def scripted(name: str, steps: Sequence[Step]) -> Plan:
    """Return a plan that handles the next requests called `name` by `steps` in turn, and passes all others."""
    left = list(steps)
    return lambda exchange: left.pop(0) if exchange.name == name and left else PASS


def mute_from(name: str) -> Plan:
    """Return a plan that forwards all messages, but holds all replies from the first request called `name` on."""
    mute = False

    def plan(exchange: Exchange) -> Step:
        nonlocal mute
        mute = mute or exchange.name == name
        return Step(Action.HOLD_REPLY) if mute else PASS

    return plan


def at_random(source: random.Random, name: str, shares: Mapping[Step, float]) -> Plan:
    """Return a plan that draws a step for each request called `name`, by `shares`; the rest of them pass."""
    steps = [*shares, PASS]
    weights = [*shares.values(), 1 - sum(shares.values())]
    return lambda exchange: source.choices(steps, weights)[0] if exchange.name == name else PASS


class Proxy:
    """Listens on a free port of loopback and forwards to `host:port`, in the event loop that it was entered in.

    With several servers, joined by commas, each gets a port of its own; all have the same plan and the same count.

    `plan` may be replaced at any time. `seen` counts the requests by name. `done` counts the steps by action, and as
    `unreachable` connections that the server did not accept. `late_answers` counts answers to requests that were held,
    `late_losses` requests held until the server had ended their connection. `wires` are all connections so far, oldest
    first. With the stores file of secure servers (hedwig.cli.dev), both sides speak TLS.
    """

    def __init__(
        self, address: str, wire: Callable[[], Wire], plan: Plan = lambda _: PASS, stores_file: str = ""
    ) -> None:
        self._behind = address.split(",")
        self._to_clients, self._to_servers = _contexts(stores_file)
        self._wire = wire
        self.plan = plan
        self._listens_on = [0 for _ in self._behind]
        self.seen: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.wires: list[Wire] = []
        self.late_answers = 0
        self.late_losses = 0
        self._released = asyncio.Event()
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()
        self._meanwhiles: list[asyncio.Future[Any]] = []

    @property
    def address(self) -> str:
        """Return host:port for clients; for several servers, in the order in which they were given."""
        return ",".join(f"{_LOOPBACK}:{port}" for port in self._listens_on)

    async def __aenter__(self) -> Self:
        await self.come_back()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.vanish()
        try:
            await end_all(self._connections)
        finally:
            await asyncio.gather(*self._meanwhiles)

    def vanish(self) -> None:
        """End all connections, and accept no more: from now on no process listens at the address."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        for task in list(self._connections):
            task.cancel()

    async def come_back(self) -> None:
        """Listen at the same address as before."""
        for number, address in enumerate(self._behind):
            accept = functools.partial(self._accept, address)
            server = await asyncio.start_server(accept, _LOOPBACK, self._listens_on[number], ssl=self._to_clients)
            self._servers.append(server)
            self._listens_on[number] = server.sockets[0].getsockname()[1]

    def release(self) -> None:
        """Forward the held requests, and hold no more requests."""
        self._released.set()

    async def _accept(self, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._serve(address, reader, writer)
        except asyncio.CancelledError:
            # Only vanish() cancels, and no code waits for the task of a connection.
            return
        finally:
            self._connections.discard(task)
            _reset(writer)

    async def _serve(self, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = address.rpartition(":")
        try:
            server_reader, server_writer = await asyncio.open_connection(host, int(port), ssl=self._to_servers)
        except OSError:
            self.done["unreachable"] += 1
            return
        wire = self._wire()
        self.wires.append(wire)
        try:
            await _Link(self, wire, reader, writer, server_reader, server_writer).run()
        finally:
            _reset(server_writer)

    def decide(self, request: Request) -> Step:
        """Return the plan's step for one request."""
        self.seen[request.name] += 1
        step = self.plan(Exchange(request.name, self.seen[request.name]))
        self.done[step.action] += 1
        return step

    def begin(self, meanwhile: Callable[[], Awaitable[Any]]) -> "asyncio.Future[Any]":
        """Start the work of others before a cut; the proxy does not end before that work."""
        doing = asyncio.ensure_future(meanwhile())
        self._meanwhiles.append(doing)
        return doing

    async def released(self) -> None:
        """Wait until `release` was called."""
        await self._released.wait()


class _CutError(Exception):
    """The connection ends here."""


class _Link:
    """One client's connection and the one to the server behind it."""

    def __init__(
        self,
        proxy: Proxy,
        wire: Wire,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        server_reader: asyncio.StreamReader,
        server_writer: asyncio.StreamWriter,
    ) -> None:
        self._proxy = proxy
        self._wire = wire
        self._reader = reader
        self._writer = writer
        self._server_reader = server_reader
        self._server_writer = server_writer
        self._steps: dict[int, Step] = {}
        self._holding = False
        self._late = asyncio.Event()
        self._mute = False

    async def run(self) -> None:
        """Forward until either side ends the connection, or a step does."""
        forwards = asyncio.create_task(self._forward_requests())
        backwards = asyncio.create_task(self._forward_replies())
        try:
            await asyncio.wait((forwards, backwards), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (forwards, backwards):
                task.cancel()
            results = await asyncio.gather(forwards, backwards, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception) and not isinstance(result, _CutError | OSError):
                raise result

    async def _forward_requests(self) -> None:
        while data := await self._reader.read(_CHUNK):
            for item in self._wire.requests(data):
                if isinstance(item, Request):
                    await self._forward_request(item)
                else:
                    await _send(self._server_writer, item)

    async def _forward_request(self, request: Request) -> None:
        step = self._proxy.decide(request)
        match step.action:
            case Action.CUT_REQUEST:
                await self._cut(step)
            case Action.DELAY_REQUEST:
                await asyncio.sleep(step.seconds)
            case Action.HOLD_REQUEST:
                # The client may be gone by then; the server still gets the request, as from a slow network.
                self._holding = True
                await self._proxy.released()
                self._steps[request.mark] = step
                await _send(self._server_writer, request.data)
                # A reset before the server has read the request would discard it.
                await self._late.wait()
                return
            case _:
                self._steps[request.mark] = step
        await _send(self._server_writer, request.data)

    async def _forward_replies(self) -> None:
        while data := await self._server_reader.read(_CHUNK):
            for reply in self._wire.replies(data):
                step = PASS if reply.mark is None else self._steps.get(reply.mark, PASS)
                match step.action:
                    case Action.CUT_REPLY:
                        await self._cut(step)
                    case Action.DELAY_REPLY:
                        await asyncio.sleep(step.seconds)
                    case Action.HOLD_REPLY:
                        self._mute = True
                    case Action.HOLD_REQUEST:
                        self._holding = False
                        self._late.set()
                        self._proxy.late_answers += 1
                if not self._mute:
                    await _send(self._writer, reply.data)
        self._proxy.late_losses += self._holding

    async def _cut(self, step: Step) -> None:
        if step.meanwhile is not None:
            # The other direction may be cut first, which must not stop others amid their work.
            await asyncio.shield(self._proxy.begin(step.meanwhile))
        raise _CutError


def _contexts(stores_file: str) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
    """Return the settings of TLS towards clients, as the servers have them, and towards the servers."""
    shown = StoreAccess.read(stores_file).zookeeper.tls
    if shown is None:
        return None, None
    to_clients = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    to_clients.load_cert_chain(Path(stores_file).parent / SERVER)
    return to_clients, shown.context()


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    end: socket.socket | None = writer.get_extra_info("socket")
    if end is not None:
        with contextlib.suppress(OSError):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
