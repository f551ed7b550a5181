"""Prove that a client with a password serves nobody at a hub that knows no logins, and does it no harm."""

import pytest

from hedwig.client import ClientOptions, HedwigClient, HubAddress, PasswordCredentials
from hedwig.errors import NotAuthenticatedError
from hedwig.model import Topic
from tests.support.servers import RunningServers


async def test_a_client_with_a_password_is_not_served_by_the_original(servers: RunningServers) -> None:
    hub = HubAddress.parse(servers.address("java-hedwig"))
    options = ClientOptions(hub=hub, credentials=PasswordCredentials("ann", "correct horse"))
    topic = Topic(b"login at the original")
    async with HedwigClient(options) as client:
        with pytest.raises(NotAuthenticatedError, match="the hub knows no logins"):
            await client.publish(topic, b"m")
        with pytest.raises(NotAuthenticatedError, match="the hub knows no logins"):
            await client.subscribe(topic, "ann")
    async with HedwigClient(ClientOptions(hub=hub)) as client:
        await client.publish(topic, b"m")
