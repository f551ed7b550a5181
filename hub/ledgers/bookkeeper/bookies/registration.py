"""The registration of a bookie in ZooKeeper."""

from typing import Final

from google.protobuf.message import DecodeError

from hedwig.hub.ledgers.bookkeeper import bookkeeper_pb2 as pb

__all__ = ["parse_address"]

_PROTOCOL: Final = "bookie-rpc"
_PORTS: Final = 1 << 16


def parse_address(bookie: str, content: bytes | None) -> tuple[str, int]:
    """Return the host and port of a bookie from its registration; without one, from its id, `host:port`.

    Raises: OSError - neither has an address.
    """
    if content:
        try:
            info = pb.BookieServiceInfoFormat.FromString(content)
        except DecodeError as exc:
            raise OSError(f"the registration of bookie {bookie} cannot be read") from exc
        for endpoint in info.endpoints:
            if endpoint.protocol == _PROTOCOL and endpoint.host and 0 < endpoint.port < _PORTS:
                return endpoint.host, endpoint.port
    host, colon, port = bookie.rpartition(":")
    if colon and host and port.isascii() and port.isdecimal() and 0 < int(port) < _PORTS:
        return host, int(port)
    raise OSError(f"bookie {bookie} is not registered, and its id is no address")
