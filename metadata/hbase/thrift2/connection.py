"""One connection to a Thrift2 gateway, used by one thread at a time."""

import contextlib
import socket
import time
from importlib.resources import as_file, files
from types import ModuleType
from typing import Any, Final

import thriftpy2
from thriftpy2.protocol import TCyBinaryProtocolFactory
from thriftpy2.protocol.exc import TProtocolException
from thriftpy2.thrift import TApplicationException, TClient
from thriftpy2.transport import (
    TCyBufferedTransportFactory,
    TCyFramedTransportFactory,
    TSocket,
    TTransportException,
)

from hedwig.clock import Deadline
from hedwig.outcomes import NotAppliedError, OutcomeUnknownError
from hedwig.reasons import reason_of

__all__ = ["GATEWAY", "ThriftConnection"]

_IDLE_MAX_S: Final = 50.0
"""The gateway closes a connection that was idle for 60 s. One that was idle for this time is replaced before use."""

_CONNECT_TIMEOUT_S: Final = 5.0


def _load() -> ModuleType:
    with as_file(files(__package__).joinpath("gateway.thrift")) as path:
        module: ModuleType = thriftpy2.load(str(path), module_name="hedwig_gateway_thrift")
        return module


GATEWAY: Final[Any] = _load()
"""The structures and the service of gateway.thrift."""


_PROTOCOL_FACTORY: Final[Any] = TCyBinaryProtocolFactory
_PROTOCOLS: Final = _PROTOCOL_FACTORY()


class ThriftConnection:
    """A connection that opens itself on first use and closes itself after any doubt about its state."""

    def __init__(self, host: str, port: int, *, framed: bool) -> None:
        self._host = host
        self._port = port
        self._transports: Any = TCyFramedTransportFactory() if framed else TCyBufferedTransportFactory()
        self._protocols = _PROTOCOLS
        self._socket: Any = None
        self._client: Any = None
        self._make_socket: Any = TSocket
        self._used_at = 0.0
        self._interrupted = False

    def call(self, deadline: Deadline, method: str, *arguments: Any) -> Any:
        """Return the gateway's answer to one call.

        Raises: GATEWAY.TIOError - the gateway's own error; NotAppliedError - the call was not sent;
            OutcomeUnknownError - the call was sent, and no valid answer came before the deadline.
        """
        self._open(deadline)
        if self._interrupted:
            raise NotAppliedError(f"the connection to the gateway at {self.address} is being closed")
        self._socket.set_timeout(max(1, int(deadline.remaining_s() * 1000)))
        try:
            answer = getattr(self._client, method)(*arguments)
        except GATEWAY.TIOError:
            self._used_at = time.monotonic()
            raise
        except TApplicationException as exc:
            self.close()
            raise OutcomeUnknownError(f"the gateway at {self.address} failed in {method}: {exc.message}") from exc
        except (TTransportException, TProtocolException, OSError, EOFError, ValueError) as exc:
            self.close()
            raise OutcomeUnknownError(f"no answer to {method} from the gateway at {self.address}: {_say(exc)}") from exc
        except BaseException:
            # Any other error may leave bytes of the answer unread. The next call must not read these.
            self.close()
            raise
        self._used_at = time.monotonic()
        return answer

    def close(self) -> None:
        """Close the connection; the next call opens a new one."""
        if self._socket is not None:
            self._socket.close()
        self._socket = self._client = None

    def interrupt(self) -> None:
        """End the call that another thread waits in, as a lost connection would, and refuse further calls."""
        self._interrupted = True
        transport = self._socket
        handle = None if transport is None else transport.sock
        if handle is not None:
            with contextlib.suppress(OSError):
                handle.shutdown(socket.SHUT_RDWR)

    @property
    def address(self) -> str:
        """Return host:port of the gateway."""
        return f"{self._host}:{self._port}"

    def _open(self, deadline: Deadline) -> None:
        if self._client is not None and time.monotonic() - self._used_at > _IDLE_MAX_S:
            self.close()
        if deadline.expired:
            raise NotAppliedError(f"no time was left to ask the gateway at {self.address}")
        if self._client is not None:
            return
        timeout_ms = max(1, int(min(_CONNECT_TIMEOUT_S, deadline.remaining_s()) * 1000))
        new_socket = self._make_socket(self._host, self._port, connect_timeout=timeout_ms, socket_timeout=timeout_ms)
        transport = self._transports.get_transport(new_socket)
        try:
            transport.open()
        except (TTransportException, OSError) as exc:
            new_socket.close()
            raise NotAppliedError(f"cannot connect to the gateway at {self.address}: {_say(exc)}") from exc
        self._socket = new_socket
        self._client = TClient(GATEWAY.THBaseService, self._protocols.get_protocol(transport))


def _say(error: BaseException) -> str:
    # A transport error has no reason in its text. It is raised while the operating system's error is handled.
    if isinstance(error.__context__, OSError) and (reason := reason_of(error.__context__)):
        return reason
    if isinstance(error, OSError):
        return reason_of(error) or type(error).__name__
    return str(getattr(error, "message", None) or str(error) or type(error).__name__)
