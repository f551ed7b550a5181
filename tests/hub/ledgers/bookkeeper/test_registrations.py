"""The client finds bookies at the addresses that they register, whatever their names."""

import pytest

from hedwig.hub.ledgers.bookkeeper.bookies.registration import parse_address
from hedwig.hub.ledgers.bookkeeper.bookkeeper_pb2 import BookieServiceInfoFormat

Endpoint = BookieServiceInfoFormat.Endpoint


def info(*endpoints: Endpoint) -> bytes:
    return BookieServiceInfoFormat(endpoints=endpoints).SerializeToString()


RPC = Endpoint(id="bookie", port=3181, host="10.0.0.7", protocol="bookie-rpc")
WEB = Endpoint(id="http", port=8080, host="10.0.0.7", protocol="http")


def test_the_endpoint_of_the_bookie_protocol_counts() -> None:
    assert parse_address("bookie-four", info(WEB, RPC)) == ("10.0.0.7", 3181)
    assert parse_address("127.0.0.1:9", info(RPC)) == ("10.0.0.7", 3181)


@pytest.mark.parametrize("content", [None, b"", info(), info(WEB)])
def test_without_one_the_id_is_the_address(content: bytes | None) -> None:
    assert parse_address("127.0.0.1:3182", content) == ("127.0.0.1", 3182)
    assert parse_address("::1:3182", content) == ("::1", 3182)
    with pytest.raises(OSError, match="bookie-four is not registered"):
        parse_address("bookie-four", content)


@pytest.mark.parametrize("bookie", ["", ":3181", "host:", "host:0", "host:65536", "host:-1", "host:³"])
def test_ids_that_are_no_addresses(bookie: str) -> None:
    with pytest.raises(OSError, match="is not registered"):
        parse_address(bookie, None)


def test_a_registration_that_cannot_be_read() -> None:
    with pytest.raises(OSError, match="cannot be read"):
        parse_address("127.0.0.1:3181", b"\xff\xff")
