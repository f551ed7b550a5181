"""A standalone hub in a process of its own, with hedwig-admin on the same store."""

from collections.abc import Sequence
from pathlib import Path

from hedwig.client import BlockingClient, ClientOptions, HubAddress
from hedwig.model import SubscriberId, Topic
from tests.cli.support.admin import Admin
from tests.hub.support.running import RunningHub

__all__ = ["HubAndAdmin"]


class HubAndAdmin:
    """`hub`, and `admin`, which knows its store, admin endpoint and data directory. Use it with `with`."""

    def __init__(self, directory: Path, *settings: str) -> None:
        self.hub = RunningHub(directory / "hub", *settings)
        self.admin = Admin(directory, f"sqlite://{self.hub.data}/metadata.db")

    def __enter__(self) -> "HubAndAdmin":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.hub.kill()

    def start(self) -> None:
        """Start the hub, for the first time or again."""
        self.hub.start()
        self.admin.environment |= {
            "HEDWIG_ADMIN": self.hub.admin,
            "HEDWIG_DATA": str(self.hub.data),
            "HEDWIG_CLUSTER": "",
            "HEDWIG_BOOKKEEPER": "",
        }

    def client(self) -> BlockingClient:
        """Return a client of the hub. The caller closes it."""
        return BlockingClient(ClientOptions(hub=HubAddress.parse(self.hub.address)))

    def publish(self, topic: str, *bodies: bytes, answer_timeout_s: float = 30.0) -> None:
        """Publish messages. Raises ServiceError - the hub has refused one for `answer_timeout_s`."""
        options = ClientOptions(hub=HubAddress.parse(self.hub.address), answer_timeout_s=answer_timeout_s)
        with BlockingClient(options) as client:
            for body in bodies:
                client.publish(Topic(topic.encode()), body)

    def subscribe(self, topic: str, subscriber: str) -> None:
        """Create a subscription, and leave it closed."""
        with self.client() as client:
            client.subscribe(Topic(topic.encode()), SubscriberId(subscriber.encode())).close()

    def read(self, topic: str, subscriber: str, count: int) -> Sequence[int]:
        """Consume the next N messages of a subscription, and return their ids."""
        ran = self.admin.run(
            "subscribe", topic, subscriber, "--count", str(count), "-o", "ndjson", HEDWIG_HUB=self.hub.address
        )
        assert ran.code == 0, ran
        return [row["id"] for row in ran.rows]
