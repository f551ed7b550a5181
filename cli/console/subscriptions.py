"""The subscriptions that are open in the console: `sub` opens one, and a thread reads it until `closesub`."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from hedwig.cli.settings.hub_access import HubAccess, client_options, hub_errors
from hedwig.cli.settings.settings import Settings
from hedwig.client import BlockingClient, BlockingSubscription, CreateOrAttach, Message
from hedwig.errors import HedwigError, OperationError
from hedwig.exit_codes import ExitCode
from hedwig.model import SubscriberId, Topic
from hedwig.names import name_fields, show_name, subscription_subject

__all__ = ["OpenSubscription", "OpenSubscriptions"]

_OPEN_MAX: Final = 64
"""Each has two threads."""
_LAST_WORDS_S: Final = 3.0


@dataclass(slots=True)
class OpenSubscription:
    """A subscription that is open here. If it `receives`, the console shows and consumes its messages."""

    client: BlockingClient
    opened: BlockingSubscription
    receives: bool
    reader: threading.Thread | None = None
    why_lost: str | None = None

    @property
    def fields(self) -> dict[str, str]:
        """Return its topic and its subscriber, as commands write them."""
        return name_fields(self.opened.topic, self.opened.subscriber)

    @property
    def name(self) -> str:
        return f"{show_name(self.opened.topic)} {show_name(self.opened.subscriber)}"

    def close(self) -> bool:
        """End the delivery; return whether the hub knows all consumed messages."""
        try:
            return self.opened.close()
        finally:
            self.client.close()


class OpenSubscriptions:
    """All subscriptions that are open here. `say` shows their messages. Only one thread may call methods."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.reports_ends = True
        """Whether to report that the delivery to one has ended, as `set printwatches` says."""
        self._say = say
        self._open: dict[tuple[Topic, SubscriberId], OpenSubscription] = {}

    def __iter__(self) -> Iterator[OpenSubscription]:
        return iter(self._open.values())

    def find(self, topic: Topic, subscriber: SubscriberId) -> OpenSubscription | None:
        """Return the subscription if it is open here, else None."""
        return self._open.get((topic, subscriber))

    def get(self, settings: Settings, topic: Topic, subscriber: SubscriberId) -> OpenSubscription:
        """Return the subscription that is open here. Raises OperationError if it is not."""
        subscription = self.find(topic, subscriber)
        if subscription is None:
            remedy = f"open it with: sub {show_name(topic)} {show_name(subscriber)}"
            raise _refusal(settings, topic, subscriber, f"it is not open in this console; {remedy}", ExitCode.NOT_FOUND)
        return subscription

    def open(
        self,
        settings: Settings,
        hub: HubAccess,
        topic: Topic,
        subscriber: SubscriberId,
        mode: CreateOrAttach,
        *,
        receives: bool,
    ) -> None:
        """Open a subscription, and show its messages if it `receives`. Raises OperationError."""
        if self.find(topic, subscriber) is not None:
            why = "it is open here already; closesub closes it"
            raise _refusal(settings, topic, subscriber, why, ExitCode.VERSION_CONFLICT)
        if len(self._open) == _OPEN_MAX:
            why = f"{_OPEN_MAX} are open here already; close one"
            raise _refusal(settings, topic, subscriber, why, ExitCode.FAILED)
        client = BlockingClient(client_options(settings, hub))
        try:
            with hub_errors(settings, hub, subscription_subject(topic, subscriber)):
                opened = client.subscribe(topic, subscriber, mode=mode, auto_consume=receives)
        except BaseException:
            client.close()
            raise
        made = OpenSubscription(client, opened, receives)
        self._open[topic, subscriber] = made
        if receives:
            name = f"subscription {made.name}"
            made.reader = threading.Thread(target=self._receive, args=(made,), name=name, daemon=True)
            made.reader.start()

    def forget(self, subscription: OpenSubscription) -> None:
        """Remove a subscription from the list. The caller closes it."""
        del self._open[subscription.opened.topic, subscription.opened.subscriber]

    def close(self) -> None:
        """Close all, and show their last messages. Messages that a hub does not confirm as consumed may come again."""
        readers = [each.reader for each in self._open.values() if each.reader is not None]
        for each in self._open.values():
            try:
                each.close()
            except HedwigError as exc:
                self._say(f"{each.name}: not closed in order: {exc}")
        self._open.clear()
        for reader in readers:
            reader.join(_LAST_WORDS_S)

    def _receive(self, subscription: OpenSubscription) -> None:
        """Show the messages of a subscription, until it is closed or lost."""
        try:
            for message in subscription.opened:
                self._say(_line(subscription, message))
        except HedwigError as exc:
            subscription.why_lost = " ".join(str(exc).split())
            if self.reports_ends:
                self._say(f"{subscription.name}: delivery has ended: {subscription.why_lost}")


def _refusal(settings: Settings, topic: Topic, subscriber: SubscriberId, why: str, code: ExitCode) -> OperationError:
    return OperationError(f"{settings.command} failed on {subscription_subject(topic, subscriber)}: {why}", code)


def _line(subscription: OpenSubscription, message: Message) -> str:
    number = "" if message.seq_id is None else f" {message.seq_id.local}"
    return f"{subscription.name}: message{number}: {show_name(message.body)}"
