"""Prove that our client, which is to log in, trusts no original hub, tells it no secret, and does it no harm."""

import pytest

from hedwig.client import ClientOptions, HedwigClient, HubAddress, PasswordCredentials
from hedwig.errors import NotAuthenticatedError
from tests.java_hedwig.support.stack import JavaStack

__all__: list[str] = []

_PASSWORD = "a password that nobody else has"


async def test_our_client_does_not_publish_where_nobody_asks_who_it_is(stack: JavaStack) -> None:
    options = ClientOptions(
        hub=HubAddress("127.0.0.1", stack.hub_port),
        credentials=PasswordCredentials("ann", _PASSWORD),
        answer_timeout_s=60.0,
    )
    async with HedwigClient(options) as client:
        with pytest.raises(NotAuthenticatedError):
            await client.publish("logged-in", b"one")
    assert _PASSWORD not in stack.hub_log()
    with stack.client() as original:
        original.publish(b"logged-in", b"the first")
    async with HedwigClient(f"127.0.0.1:{stack.hub_port}") as client:
        assert (await client.publish("logged-in", b"the second")).local == 2
