"""The subscriptions that are open in the console: `sub` opens one, and a thread reads it until `closesub`."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from hedwig.cli.settings.hub_access import HubAccess, client_options, hub_errors
from hedwig.cli.settings.settings import Settings
from hedwig.client import BlockingClient, BlockingSubscription, CreateOrAttach, Message
from hedwig.errors import HedwigError, OperationError
from hedwig.exit_codes import ExitCode
from hedwig.model import SubscriberId, Topic
from hedwig.names import show_name

__all__ = ["OpenSubscription", "OpenSubscriptions"]

_OPEN_MAX: Final = 64
"""Each has two threads."""
_LAST_WORDS_S: Final = 3.0


class _Speaker(Protocol):
    """Reports what happens to subscriptions."""

    says_events: bool

    def say(self, line: str) -> None: ...


@dataclass(slots=True)
class OpenSubscription:
    """A subscription that is open here. If it `receives`, the console shows and consumes its messages."""

    client: BlockingClient
    opened: BlockingSubscription
    receives: bool
    reader: threading.Thread | None = None
    why_lost: str | None = None

    def close(self) -> bool:
        """End the delivery; return whether the hub knows all consumed messages."""
        try:
            return self.opened.close()
        finally:
            self.client.close()


class OpenSubscriptions:
    """All subscriptions that are open here. `speaker` shows their messages. Only one thread may call methods."""

    def __init__(self, speaker: _Speaker) -> None:
        self._speaker = speaker
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
            raise OperationError(
                f"{settings.command} failed on {_subject(topic, subscriber)}: it is not open in this console; open it "
                f"with: sub {show_name(topic)} {show_name(subscriber)}",
                ExitCode.NOT_FOUND,
            )
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
    ) -> OpenSubscription:
        """Open a subscription, and show its messages if it `receives`. Raises OperationError."""
        subject = _subject(topic, subscriber)
        if self.find(topic, subscriber) is not None:
            raise OperationError(
                f"{settings.command} failed on {subject}: it is open here already; closesub closes it",
                ExitCode.VERSION_CONFLICT,
            )
        if len(self._open) == _OPEN_MAX:
            raise OperationError(
                f"{settings.command} failed on {subject}: {_OPEN_MAX} are open here already; close one"
            )
        client = BlockingClient(client_options(settings, hub))
        try:
            with hub_errors(settings, hub, subject):
                opened = client.subscribe(topic, subscriber, mode=mode, auto_consume=receives)
        except BaseException:
            client.close()
            raise
        made = OpenSubscription(client, opened, receives)
        self._open[topic, subscriber] = made
        if receives:
            name = f"subscription {show_name(topic)} {show_name(subscriber)}"
            made.reader = threading.Thread(target=self._receive, args=(made,), name=name, daemon=True)
            made.reader.start()
        return made

    def forget(self, topic: Topic, subscriber: SubscriberId) -> None:
        """Remove a closed subscription from the list."""
        del self._open[topic, subscriber]

    def close(self) -> None:
        """Close all, and show their last messages. Messages that a hub does not confirm as consumed may come again."""
        readers = [each.reader for each in self._open.values() if each.reader is not None]
        for each in self._open.values():
            try:
                each.close()
            except HedwigError as exc:
                self._speaker.say(f"{_name(each)}: not closed in order: {exc}")
        self._open.clear()
        for reader in readers:
            reader.join(_LAST_WORDS_S)

    def _receive(self, subscription: OpenSubscription) -> None:
        """Show the messages of a subscription, until it is closed or lost."""
        try:
            for message in subscription.opened:
                self._speaker.say(_line(subscription, message))
        except HedwigError as exc:
            subscription.why_lost = " ".join(str(exc).split())
            if self._speaker.says_events:
                self._speaker.say(f"{_name(subscription)}: delivery has ended: {subscription.why_lost}")


def _subject(topic: Topic, subscriber: SubscriberId) -> str:
    return f"the subscription of '{show_name(subscriber)}' to topic '{show_name(topic)}'"


def _name(subscription: OpenSubscription) -> str:
    return f"{show_name(subscription.opened.topic)} {show_name(subscription.opened.subscriber)}"


def _line(subscription: OpenSubscription, message: Message) -> str:
    number = "" if message.seq_id is None else f" {message.seq_id.local}"
    return f"{_name(subscription)}: message{number}: {show_name(message.body)}"
