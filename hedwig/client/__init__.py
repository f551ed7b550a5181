"""The client library: publish to topics and subscribe to them, with asyncio or with calls that block.

`HedwigClient` is for programs that use asyncio, `BlockingClient` for those that do not.
"""

from hedwig.client.activity import ClientCounters
from hedwig.client.blocking.client import BlockingClient, BlockingPublisher
from hedwig.client.blocking.subscription import BlockingShare, BlockingSubscription
from hedwig.client.client import HedwigClient, Opening
from hedwig.client.credentials import Credentials, PasswordCredentials, TokenCredentials
from hedwig.client.options import ClientOptions, HubAddress
from hedwig.client.publishing.publisher import NamedPublisher
from hedwig.client.subscriptions.share import Share
from hedwig.client.subscriptions.subscription import Subscription
from hedwig.wire import CreateOrAttach, Message, Received

__all__ = [
    "BlockingClient",
    "BlockingPublisher",
    "BlockingShare",
    "BlockingSubscription",
    "ClientCounters",
    "ClientOptions",
    "CreateOrAttach",
    "Credentials",
    "HedwigClient",
    "HubAddress",
    "Message",
    "NamedPublisher",
    "Opening",
    "PasswordCredentials",
    "Received",
    "Share",
    "Subscription",
    "TokenCredentials",
]
