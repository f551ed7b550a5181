"""One client of the original library, inside the process that runs it."""

import itertools
from collections.abc import Mapping
from enum import StrEnum
from types import TracebackType
from typing import Any, Final, Self, TypedDict, Unpack, cast

from tests.java_client.support.driver import Inbox, JavaClientDriver, JavaError, Received, Value

__all__ = ["PATIENCE_S", "JavaClient", "JavaSubscription", "Mode", "SubscribeOptions"]

PATIENCE_S: Final = 30.0
"""How long a test waits for anything that must arrive."""

_clients = itertools.count(1)
_deliveries = itertools.count(1)


class Mode(StrEnum):
    """Whether a subscription may, must or must not exist already."""

    CREATE = "CREATE"
    ATTACH = "ATTACH"
    CREATE_OR_ATTACH = "CREATE_OR_ATTACH"


class SubscribeOptions(TypedDict, total=False):
    """The options of a SUBSCRIBE as the Java client takes them; absent ones are not sent."""

    mode: Mode
    force: bool
    resubscribe: bool
    bound: int
    window: int
    filter: str
    options: Mapping[str, bytes]


class JavaClient:
    """A client with its own connections, which `with` closes.

    Raises in its methods: JavaError - what the client threw; TimeoutError - the call did not end in time.
    """

    def __init__(self, driver: JavaClientDriver, hub: str, properties: Mapping[str, Value]) -> None:
        self.name = f"client-{next(_clients)}"
        self.driver = driver
        given = {"default_server_host": hub, **properties}
        self.call("open", {f"property.{name}": value for name, value in given.items()})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.call("close", {})

    def publish(
        self,
        topic: bytes,
        body: bytes,
        *,
        properties: Mapping[str, bytes] | None = None,
        message_type: str | None = None,
        deadline_s: float = PATIENCE_S,
    ) -> int | None:
        """Publish one message and return its local sequence id; None if the answer had none."""
        values: dict[str, Value] = {f"header.{name}": value for name, value in (properties or {}).items()}
        if message_type is not None:
            values["message_type"] = message_type
        result = self.call("publish", {**values, "topic": topic, "body": body}, deadline_s)
        local: int | None = result["local"]
        return local

    def publish_many(
        self, topic: bytes, count: int, *, prefix: str = "", in_flight: int = 50, deadline_s: float = PATIENCE_S
    ) -> list[int]:
        """Publish `prefix` + 0, 1, 2 … with at most `in_flight` unanswered, and return their local sequence ids.

        Raises: JavaError - the first failure among them.
        """
        given: dict[str, Value] = {"topic": topic, "prefix": prefix, "count": count, "in_flight": in_flight}
        answers = self.call("publish_many", given, deadline_s)["answers"]
        for answer in answers:
            if isinstance(answer, dict):
                raise JavaError(answer["class"], answer["text"] or "", answer["causes"])
        return list(answers)

    def subscribe(self, topic: bytes, subscriber: bytes, **settings: Unpack[SubscribeOptions]) -> "JavaSubscription":
        """Subscribe without delivery. The Java client queues messages until delivery starts."""
        subscription = JavaSubscription(self, topic, subscriber)
        options = settings.pop("options", {})
        values: dict[str, Value] = {f"option.{name}": value for name, value in options.items()}
        subscription.call("subscribe", {"mode": Mode.CREATE_OR_ATTACH, **values, **cast(dict[str, Value], settings)})
        return subscription

    def listen(self, topic: bytes, subscriber: bytes, **settings: Unpack[SubscribeOptions]) -> "JavaSubscription":
        """Subscribe and start delivery, in which every message is acknowledged at once."""
        subscription = self.subscribe(topic, subscriber, **settings)
        subscription.start()
        return subscription

    def unsubscribe(self, topic: bytes, subscriber: bytes) -> None:
        """Remove the subscription, open or not."""
        self.call("unsubscribe", {"topic": topic, "subscriber": subscriber})

    def call(self, verb: str, values: Mapping[str, Value], deadline_s: float = PATIENCE_S) -> dict[str, Any]:
        """Send the driver a command for this client."""
        return self.driver.call(verb, {"client": self.name, **values}, deadline_s)


class JavaSubscription:
    """A subscription of a client. It keeps receiving over all reconnects of the client."""

    def __init__(self, client: JavaClient, topic: bytes, subscriber: bytes) -> None:
        self._client = client
        self._pair = {"topic": topic, "subscriber": subscriber}
        self._events = client.driver.events((client.name, topic, subscriber))
        self._messages: Inbox[Received] = Inbox("message")

    def start(self, *, hold: bool = False, matching: str | None = None) -> None:
        """Start delivery.

        With `hold`, messages count as handled only after `acknowledge`. With `matching`, a filter in the client passes
        a message if its property of this name equals the subscription's option of this name.
        """
        number = next(_deliveries)
        self._messages = self._client.driver.messages(number)
        values: dict[str, Value] = {"delivery": number, "hold": hold}
        self.call("start", values if matching is None else {**values, "matching": matching})

    def stop(self) -> None:
        """Stop delivery; the client queues messages that still arrive."""
        self.call("stop")

    def acknowledge(self) -> int:
        """Tell the client that all received messages are handled, and return their number."""
        count: int = self.call("acknowledge")["count"]
        return count

    def consume(self, local: int) -> None:
        """Consume up to this sequence id."""
        self.call("consume", {"local": local})

    def close(self) -> None:
        """Close it, and keep it at the hub."""
        self.call("close_subscription")

    def unsubscribe(self) -> None:
        """Close it, and remove it at the hub."""
        self.call("unsubscribe")

    def take(self, count: int, timeout_s: float = PATIENCE_S) -> list[Received]:
        """Return the next messages, each within `timeout_s`."""
        return [self._messages.next(timeout_s) for _ in range(count)]

    def ids(self, count: int, timeout_s: float = PATIENCE_S) -> list[int]:
        """Return the sequence ids of the next messages."""
        return [message.local for message in self.take(count, timeout_s)]

    def event(self) -> str:
        """Return the name of the next event."""
        return self._events.next(PATIENCE_S)

    @property
    def waiting(self) -> int:
        """Return how many messages have arrived and were not taken."""
        return self._messages.waiting

    @property
    def events_waiting(self) -> int:
        """Return how many events have arrived and were not taken."""
        return self._events.waiting

    def call(self, verb: str, values: Mapping[str, Value] | None = None) -> dict[str, Any]:
        """Send the driver a command for this subscription."""
        return self._client.call(verb, {**self._pair, **(values or {})})
