"""A hub for the tests of applications: it runs in the process of the tests, and keeps everything in memory.

Example:
    with HubInProcess() as hub, BlockingClient(hub.address) as client:
        client.publish("news", b"hello")

With pytest, the fixture `hedwig_hub` is such a hub. This needs the packages of the extra `hub`.
"""

import asyncio
import os
import tempfile
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from hedwig.extras import needed

with needed("hub", "a hub in the process of tests needs"):
    from hedwig.hub.hub import Hub
    from hedwig.hub.ledgers import LocalLedgerOptions
    from hedwig.hub.options.configuration import Configuration
    from hedwig.hub.options.options import HubOptions
    from hedwig.hub.process import start_hub

__all__ = ["HubInProcess"]

T = TypeVar("T")

_MEMORY: Final = Path("/dev/shm")
"""A file system in memory, where the system has one. Elsewhere the hub uses a temporary directory."""
_SEGMENT_BYTES: Final = 4 << 20
"""Small, since containers have 64 MiB there."""
_CHANNELS_MAX: Final = 1_000
"""As many as the open files of any process allow."""


class HubInProcess:
    """A standalone hub on a free port of loopback, on the event loop of a thread of its own.

    As a context manager it starts, and is gone afterwards with all messages. Blocking and asyncio programs may use it
    alike. `stop` and `start` try what an application does while its hub is away: messages and subscriptions stay, and
    so does the address.
    """

    def __init__(self, **options: Any) -> None:
        """`options`: options of the hub by their names, such as `non_durable_topics`. See HubOptions.

        Raises: ConfigurationError - they cannot work together.
        """
        given: dict[str, Any] = {
            "port": 0,
            "admin_port": -1,
            "channels_max": _CHANNELS_MAX,
            "ledgers": LocalLedgerOptions(segment_bytes=_SEGMENT_BYTES),
            **options,
        }
        self._options = HubOptions(**given)
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._hub: Hub | None = None

    @property
    def address(self) -> str:
        """Return host:port, which stays the same. It is not known before the first start."""
        if not self._options.port:
            raise RuntimeError("the hub has no address before it is started for the first time")
        return f"{self._options.host}:{self._options.port}"

    @property
    def is_running(self) -> bool:
        return self._hub is not None

    def start(self) -> Self:
        """Start the hub, and return once it serves. Does nothing if it does already. Raises as Hub.start."""
        if self._hub is not None:
            return self
        is_first = self._directory is None
        if self._directory is None:
            self._directory = tempfile.TemporaryDirectory(prefix="hedwig-", dir=_memory(), ignore_cleanup_errors=True)
        options = replace(self._options, data_directory=Path(self._directory.name) / "data")
        self._loop = asyncio.new_event_loop()
        # A test run that does not stop it must still end.
        self._thread = threading.Thread(target=self._loop.run_forever, name="hedwig-hub", daemon=True)
        self._thread.start()
        try:
            self._hub = self._call(lambda: start_hub(Configuration(options)))
        except BaseException:
            self._end_thread()
            if is_first:
                self.close()
            raise
        self._options = replace(self._options, port=self._hub.port)
        return self

    def stop(self) -> None:
        """Stop the hub as an operator does, and return once it has ended. Does nothing if it does not run."""
        hub, self._hub = self._hub, None
        if hub is not None:
            try:
                self._call(hub.close)
            finally:
                self._end_thread()

    def close(self) -> None:
        """Stop the hub, and delete everything."""
        try:
            self.stop()
        finally:
            if self._directory is not None:
                self._directory.cleanup()
                self._directory = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work(), self._loop).result()

    def _end_thread(self) -> None:
        assert self._loop is not None
        assert self._thread is not None
        self._call(self._loop.shutdown_default_executor)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._loop = self._thread = None


def _memory() -> Path | None:
    return _MEMORY if os.access(_MEMORY, os.W_OK) else None
