"""Revocation: rules that changed end what they do not allow any more."""

import asyncio
import logging
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final, Protocol

from hedwig.errors import QuotaExceededError
from hedwig.hub.access.access_control import AccessControl
from hedwig.hub.access.caller import Caller
from hedwig.model import SubscriberId, Topic
from hedwig.names import subscription_subject

if TYPE_CHECKING:
    from hedwig.hub.access.logins import Logins

__all__ = ["close_revoked", "look_up_anew"]

_log = logging.getLogger(__name__)

_SLICE: Final = 5_000
"""How many subscriptions are looked at before other tasks run."""


class _Serving(Protocol):
    """A connection that serves subscriptions."""

    peer: str
    caller: Caller | None

    @property
    def subscriptions(self) -> Collection[tuple[Topic, SubscriberId]]: ...
    def tell_forced_closed(self, topic: Topic, subscriber: SubscriberId, why: str | None = None) -> None: ...
    def close(self) -> None: ...


class _LoggedIn(Protocol):
    """A connection whose client may have logged in."""

    peer: str
    caller: Caller | None
    counted_as: tuple[str, ...]
    why_over: QuotaExceededError | None

    def close(self) -> None: ...


def look_up_anew(channels: Iterable[_LoggedIn], logins: "Logins", access: AccessControl) -> None:
    """Let those that have logged in be in the groups that they have now. Close the connections of deleted users."""
    for channel in list(channels):
        if channel.caller is not None and channel.caller.has_logged_in:
            channel.caller = logins.caller(channel.caller.principal.name)
            access.recount_connection(channel)
            if channel.caller is None:
                _log.info("%s: closing the connection: there is no such user any more", channel.peer)
                channel.close()


async def close_revoked(channels: Iterable[_Serving], access: AccessControl) -> None:
    """Close the connections that serve a subscription that the rules do not allow any more.

    Their clients are told that they lost it, and attach the others again. Publishers are asked at each message.
    """
    looked = 0
    for channel in list(channels):
        revoked = []
        for topic, subscriber in list(channel.subscriptions):
            looked += 1
            if looked % _SLICE == 0:
                await asyncio.sleep(0)
            if not access.may_serve(channel, topic, subscriber):
                revoked.append((topic, subscriber))
        for topic, subscriber in revoked:
            why = f"{subscription_subject(topic, subscriber)} is not permitted any more"
            _log.info("%s: %s", channel.peer, why)
            channel.tell_forced_closed(topic, subscriber, why)
        if revoked:
            channel.close()
