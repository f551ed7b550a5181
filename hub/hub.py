"""A hub: everything it is made of, put together, started and stopped in order."""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Self

from hedwig.clock import Clock, SystemClock
from hedwig.errors import ConfigurationError, StandaloneHubExistsError
from hedwig.model import HubInfo
from hedwig.wire import Request
from hub import standalone
from hub.channel import Channel
from hub.delivery import Delivery
from hub.descriptors import ConnectionLimits
from hub.filters import FilterRegistry
from hub.ledgers import LocalLedgerStore
from hub.log_store import LogStore
from hub.options import HubOptions
from hub.ownership import Ownership, StandaloneLiveness
from hub.requests import Requests
from hub.retention import Retention
from hub.subscribing import Subscribing
from hub.tail import TailMemory
from hub.tls import tls_context
from hub.topics import Topics
from metadata import MetadataStore, StoreOptions, open_metadata

__all__ = ["Hub"]

_log = logging.getLogger(__name__)

_LEDGERS: Final = "ledgers"
_LAST_WORDS_S: Final = 3.0
"""How long peers have to take their last answers when the hub ends."""


class Hub:
    """A standalone hub that serves. `start` is the door; use it as an async context manager, or close it."""

    def __init__(self, options: HubOptions, clock: Clock) -> None:
        self.options = options
        self.clock = clock
        self.channels: dict[Channel, None] = {}
        self._stack = AsyncExitStack()
        self.held_bytes = 0
        """What all channels hold of frames that are not complete."""
        self._servers: list[asyncio.Server] = []
        self._limits = ConnectionLimits.fit(options.channels_max)
        self._is_closing = False
        self.replaced: asyncio.Future[StandaloneHubExistsError] = asyncio.get_running_loop().create_future()
        """Done once this hub knows that another one has its metadata; then it serves nobody, and is to be closed."""
        self._connections: set[Channel] = set()
        """The channels whose connections are not closed yet, though they may have ended."""
        self._all_gone = asyncio.Event()

    metadata: MetadataStore
    ledgers: LocalLedgerStore
    me: HubInfo
    tails: TailMemory
    topics: Topics
    delivery: Delivery
    subscribing: Subscribing
    requests: Requests
    retention: Retention
    port: int
    tls_port: int | None
    admin_port: int | None = None

    @classmethod
    async def start(
        cls,
        options: HubOptions,
        clock: Clock | None = None,
        *,
        origins: Mapping[str, str] | None = None,
        replace_standalone: bool = False,
    ) -> Self:
        """Open what the hub needs, register it, and serve; the admin endpoint shows `origins` of options, by key.

        Raises: ConfigurationError - an option cannot work, a port is taken; LedgerStoreLockedError - another process
            uses the data directory; LayoutError, MetadataUnavailableError - the metadata cannot be used;
            StandaloneHubExistsError - they belong to another standalone hub, and `replace_standalone` is not set.
        """
        hub = cls(options, clock or SystemClock())
        try:
            await hub._open(origins or {}, replace_standalone=replace_standalone)
        except BaseException:
            await hub._stack.aclose()
            raise
        return hub

    async def _open(self, origins: Mapping[str, str], *, replace_standalone: bool) -> None:
        options, stack = self.options, self._stack
        filters = FilterRegistry(options.filters)
        tls = tls_context(options)
        try:
            options.data_directory.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise ConfigurationError(f"cannot make the data directory {options.data_directory}: {exc}") from exc
        # Its lock keeps every other process off the directory, so it comes first.
        self.ledgers = await LocalLedgerStore.open(options.data_directory / _LEDGERS, options.ledgers)
        stack.push_async_callback(self.ledgers.aclose)
        identity = standalone.hub_id(options.data_directory)
        store_options = StoreOptions(operation_timeout_s=options.operation_timeout_s, gather=True)
        self.metadata = await stack.enter_async_context(await open_metadata(options.metadata_url, store_options))
        # The sockets listen before the owner record can name them, and answer once everything is there.
        listeners = await self._listen(tls)
        host = options.advertised_host or options.host
        address = HubInfo(host=host, port=self.port, ssl_port=self.tls_port)
        epoch = await standalone.register(self.metadata, identity, address, replace=replace_standalone)
        self.me = replace(address, epoch=epoch)
        self.ledgers.give_ids_from(standalone.first_ledger_id(epoch))
        self._build(filters)
        if options.admin_port >= 0:
            await self._open_admin(origins)
        for server in listeners:
            await server.start_serving()
        self._run_forever("topic sweep", options.topic_sweep_s, self.topics.sweep)
        self._run_forever("retention", options.retention_interval_s, self.retention.sweep)
        self._run_forever("look at the registration", standalone.CHECK_S, self._check_registration)
        self._run(self.subscribing.pointers.run())

    def _build(self, filters: FilterRegistry) -> None:
        options = self.options
        self.tails = TailMemory(options.cache_bytes)
        log_store = LogStore(self.ledgers, self.metadata.persistence, options, self.tails, options.region.encode())
        ownership = Ownership(self.metadata.ownership, StandaloneLiveness(self.me, self.metadata))
        self.topics = Topics(options, ownership, log_store, self.clock)
        self.delivery = Delivery(options, self.clock)
        self.subscribing = Subscribing(options, self.metadata.subscriptions, self.delivery, filters, self.clock)
        self.retention = Retention(options, self.topics, self.metadata.subscriptions, self.subscribing)
        self.topics.attach_caretaker(self.retention)
        self.requests = Requests(options, self.topics, self.subscribing)
        for tasks in (log_store.tasks, self.delivery.tasks, self.subscribing.pointers.tasks, self.requests.tasks):
            self._stack.push_async_callback(tasks.cancel)

    async def _open_admin(self, origins: Mapping[str, str]) -> None:
        try:
            from hub.admin import AdminEndpoint
        except ImportError as exc:
            raise ConfigurationError(
                f"the admin endpoint needs {exc.name}; in the checkout of hedwig: pip install '.[hub]'; "
                "or set admin_port to -1"
            ) from exc
        admin = AdminEndpoint(self, origins)
        self.admin_port = await admin.start()
        # It answers until the topics are released.
        self._stack.push_async_callback(admin.close)
        self._run(admin.load.run())

    async def _listen(self, tls: ssl.SSLContext | None) -> Sequence[asyncio.Server]:
        options = self.options
        plain = await self._bind(options.port, None)
        self.port = plain.sockets[0].getsockname()[1]
        self._servers.append(plain)
        self.tls_port = None
        if tls is not None:
            secure = await self._bind(options.tls_port, tls)
            self.tls_port = secure.sockets[0].getsockname()[1]
            self._servers.append(secure)
        return self._servers

    async def _bind(self, port: int, tls: ssl.SSLContext | None) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        host = self.options.host
        try:
            server = await loop.create_server(
                lambda: Channel(self, self.options, loop),
                host,
                port,
                ssl=tls,
                backlog=self._limits.backlog,
                reuse_address=True,
                start_serving=False,
            )
        except OSError as exc:
            raise ConfigurationError(f"cannot listen on {host}:{port}: {exc.strerror or exc}") from exc
        self._stack.push_async_callback(_close_server, server)
        return server

    # ------------------------------------------------------------------------------------------------ channels

    def opened(self, channel: Channel) -> bool:
        if self._is_closing or self.replaced.done() or len(self._connections) >= self._limits.connections:
            return False
        self.channels[channel] = None
        self._connections.add(channel)
        return True

    def handle(self, channel: Channel, request: Request, size: int) -> None:
        self.requests.handle(channel, request, size)

    def answered(self, size: int) -> None:
        self.requests.answered(size)

    def hold(self, more: int) -> bool:
        self.held_bytes += more
        return more <= 0 or self.held_bytes <= self.options.receive_bytes_max

    def ended(self, channel: Channel) -> None:
        self.channels.pop(channel, None)
        if not self.replaced.done():
            self.requests.channel_ended(channel)

    def gone(self, channel: Channel) -> None:
        self._connections.discard(channel)
        if not self._connections:
            self._all_gone.set()

    # ------------------------------------------------------------------------------------------------ the end

    @property
    def is_closing(self) -> bool:
        return self._is_closing

    async def _check_registration(self) -> None:
        """Serve nobody any more once another hub has replaced this one."""
        error = await standalone.successor(self.metadata, self.me)
        if error is None or self.replaced.done():
            return
        _log.error("%s", error)
        self.replaced.set_result(error)
        for server in self._servers:
            server.close()
        for channel in list(self.channels):
            channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop accepting, finish what was begun, store consume pointers, release all topics, close everything.

        What takes longer than the time for a shutdown is left: the next start takes these topics over. A hub that was
        replaced releases nothing: the metadata are its successor's.
        """
        if self._is_closing:
            return
        self._is_closing = True
        for server in self._servers:
            server.close()
        try:
            if not self.replaced.done():
                async with asyncio.timeout(self.options.shutdown_s or None):
                    await self.topics.close()
                    await self._settle()
        except TimeoutError:
            _log.warning(
                "not released within %g s: %d topics; the next start takes them over",
                self.options.shutdown_s,
                len(self.topics),
            )
            await self.topics.abandon()
        finally:
            await self._close_channels()
            await self._stack.aclose()

    async def _settle(self) -> None:
        """Wait for what is still being carried out; not for clients that would have to read before."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_S):
                await self.requests.tasks.settle()

    async def _close_channels(self) -> None:
        """Close all connections after what was sent on them; a peer that does not read is cut off."""
        for channel in list(self.channels):
            channel.close()
        if self._connections:
            self._all_gone.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORDS_S):
                    await self._all_gone.wait()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(_note_end)
        self._stack.push_async_callback(_cancel, task)

    def _run_forever(self, what: str, interval_s: float, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def run() -> None:
            while True:
                await self.clock.sleep(interval_s)
                try:
                    await work()
                except Exception:
                    _log.exception("the %s failed; it is tried again in %g s", what, interval_s)

        self._run(run())


async def _close_server(server: asyncio.Server) -> None:
    server.close()


async def _cancel(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait([task])


def _note_end(task: "asyncio.Task[None]") -> None:
    """Say when work that never ends has ended: the hub goes on without it."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.critical("%s ended; start the hub again", task.get_coro(), exc_info=error)
