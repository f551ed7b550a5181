"""The client library: publish to topics and subscribe to them, over asyncio."""

from hedwig.client.client import HedwigClient
from hedwig.client.options import ClientOptions, HubAddress
from hedwig.client.subscription import Subscription
from hedwig.wire import CreateOrAttach, Message

__all__ = ["ClientOptions", "CreateOrAttach", "HedwigClient", "HubAddress", "Message", "Subscription"]
