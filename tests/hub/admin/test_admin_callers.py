"""No page of another site can read from the admin endpoint or change the hub. All other callers get answers."""

import asyncio

import pytest

from hedwig.client import ClientOptions, HedwigClient, HubAddress
from hedwig.errors import ConfigurationError
from hedwig.hub.hub import Hub
from hedwig.hub.options.options import HubOptions
from hedwig.model import Topic
from tests.hub.conftest import StartHub
from tests.hub.support.admin_client import AdminClient

_NAMES = {"advertised_host": "hub1.example", "admin_hosts": ("Hub1", "metrics.example.")}


async def _status(hub: Hub, request: str) -> tuple[int, str]:
    """Return the status of the answer to a request as it stands on the wire, and the answer."""
    text = request.replace("\n", "\r\n") + "\r\nConnection: close\r\n\r\n"
    answer = await asyncio.to_thread(AdminClient(f"127.0.0.1:{hub.admin_port}").exchange, text.encode("latin-1"))
    return int(answer.split()[1]), answer.decode()


async def test_messages_are_not_read_through_dns_rebinding(start_hub: StartHub) -> None:
    hub = await start_hub(admin_port=0)
    async with HedwigClient(ClientOptions(hub=HubAddress("127.0.0.1", hub.port))) as client:
        await client.publish(Topic(b"news"), b"secret")
    for host in ("evil.example", f"evil.example:{hub.admin_port}", "EVIL.example."):
        status, answer = await _status(hub, f"GET /messages?topic=news HTTP/1.1\nHost: {host}")
        assert (status, "message_base64" in answer) == (403, False), answer
        assert "admin_hosts" in answer
    status, answer = await _status(hub, "GET /messages?topic=news HTTP/1.1\nHost: localhost")
    assert (status, "message_base64" in answer) == (200, True), answer


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:4081",
        "10.0.0.9:80",
        "[::1]",
        "[::1]:4081",
        "::1",
        "[fe80::1%25eth0]:4081",
        "localhost",
        "LocalHost:4081",
        "localhost.",
        "localhost.:4081",
        "hub1.example",
        "hub1:4081",
        "HUB1",
        "Metrics.Example:4081",
        "",
    ],
)
async def test_the_endpoint_answers_to_addresses_and_to_its_names(start_hub: StartHub, host: str) -> None:
    hub = await start_hub(admin_port=0, **_NAMES)
    status, answer = await _status(hub, f"GET /health HTTP/1.1\nHost: {host}")
    assert status == 200, answer


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "hub1.example.evil.example",
        "xhub1.example",
        "127.0.0.1.evil.example",
        "127.0.0.1:80.evil.example",
        "localhost.evil.example",
        "localhost:4081:4081",
        "localhost@evil.example",
        "localhost..",
        "[::1].evil.example",
        "[localhost]",
        "[evil.example]",
        "localhost, evil.example",
        "localhost/",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_the_endpoint_answers_to_no_other_name(start_hub: StartHub, method: str, host: str) -> None:
    hub = await start_hub(admin_port=0, **_NAMES)
    for path in ("/read-only?state=on", "/nowhere"):
        status, answer = await _status(hub, f"{method} {path} HTTP/1.1\nHost: {host}")
        assert status in (400, 403), answer
    assert not hub.requests.is_read_only


async def test_programs_that_are_no_browsers_need_not_say_the_name(start_hub: StartHub) -> None:
    hub = await start_hub(admin_port=0)
    for request, expected in (
        ("GET /ready HTTP/1.0", 200),
        ("POST /read-only?state=off HTTP/1.0\nContent-Length: 0", 200),
        ("GET /ready HTTP/1.1", 400),
        ("GET /ready HTTP/1.1\nHost: localhost\nHost: localhost", 400),
        ("GET /ready HTTP/1.1\nHost: localhost\nHost: evil.example", 400),
        ("GET http://localhost/ready HTTP/1.1\nHost: localhost", 200),
        ("GET http://evil.example/ready HTTP/1.1\nHost: localhost", 403),
        ("GET http://localhost/ready HTTP/1.1\nHost: evil.example", 403),
    ):
        status, answer = await _status(hub, request)
        assert status == expected, (request, answer)


@pytest.mark.parametrize(
    ("headers", "read", "change"),
    [
        ("Sec-Fetch-Site: none", 200, 200),
        ("Sec-Fetch-Site: same-origin", 200, 200),
        ("Sec-Fetch-Site: cross-site", 403, 403),
        ("Sec-Fetch-Site: Cross-Site", 403, 403),
        ("Sec-Fetch-Site: same-site", 403, 403),
        ("Sec-Fetch-Site: none\nSec-Fetch-Site: cross-site", 403, 403),
        ("Sec-Fetch-Site: cross-site\nSec-Fetch-Mode: no-cors\nSec-Fetch-Dest: image", 403, 403),
        ("Origin: http://localhost:4081", 200, 403),
        ("Origin: HTTP://LOCALHOST:4081\nSec-Fetch-Site: same-origin", 200, 403),
        ("Origin: http://localhost:4082", 403, 403),
        ("Origin: http://localhost", 403, 403),
        ("Origin: http://127.0.0.1:4081", 403, 403),
        ("Origin: https://evil.example", 403, 403),
        ("Origin: null", 403, 403),
        ("Origin:", 403, 403),
    ],
)
async def test_pages_of_other_sites_read_and_change_nothing(
    start_hub: StartHub, headers: str, read: int, change: int
) -> None:
    hub = await start_hub(admin_port=0)
    for request, expected in (("GET /read-only", read), ("POST /read-only?state=on", change)):
        status, answer = await _status(hub, f"{request} HTTP/1.1\nHost: localhost:4081\n{headers}")
        assert status == expected, answer
        assert (status == 200) == ('"read_only"' in answer)
    assert hub.requests.is_read_only == (change == 200)


@pytest.mark.parametrize("name", ["", "http://hub1", "hub1:4081", "hub1/", "*", "käse.example", "a b", "[::1]"])
def test_a_name_that_no_request_can_have_is_refused_at_the_start(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"admin_hosts names .*; it must be a name such as hub1\.example"):
        HubOptions(admin_hosts=(name,))
