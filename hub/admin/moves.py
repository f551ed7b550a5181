"""Moves: how a hub claims a topic that an operator wants here, and hands a topic over to another hub.

The owner closes the log of the topic, and then names the other hub in the owner record, by compare-and-set. So there is
no moment without an owner, in which a returning client could make any hub claim the topic. The other hub finds itself
named, and claims that record as it would its own. Before it serves, it shuts out the hub that wrote the last ledger. A
crash in between leaves the old owner on record, or the new one. If that owner is dead, any hub takes the topic over.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from hedwig.errors import HedwigError, NotResponsibleForTopicError, ServiceDownError
from hedwig.hub.admin.http.errors import ConflictError
from hedwig.hub.topics.topic import OwnedTopic
from hedwig.model import HubInfo, Topic
from hedwig.names import show_name
from hedwig.versions import Version, Versioned

if TYPE_CHECKING:
    from hedwig.hub.hub import Hub

__all__ = ["Moves"]

_TRIES: Final = 5


class Moves:
    """Claims topics for this hub and hands them over, on request of operators.

    All methods raise ConflictError as documented, and MetadataError, LedgerError and ServiceDownError as a claim does.
    """

    def __init__(self, hub: "Hub") -> None:
        self._hub = hub

    def check_takes(self) -> None:
        """Raise ConflictError if this hub would not keep or not serve a topic that is moved here."""
        hub = self._hub
        self.check_writes()
        if hub.is_closing:
            raise ConflictError("this hub is shutting down", reason="closing")
        if hub.topics.claims_nothing_new:
            raise _is_drained()
        if hub.requests.is_read_only:
            raise ConflictError("this hub is read-only: publishes would be refused here", reason="read-only")
        topics, options = hub.topics, hub.options
        if len(topics) >= options.topics_max:
            raise ConflictError(
                f"this hub is full: it owns {len(topics)} topics, and topics_max is {options.topics_max}",
                reason="full",
            )
        if topics.waiting >= options.acquisitions_waiting_max:
            raise ConflictError(
                f"this hub is full: {topics.waiting} topics wait to be acquired by it, and acquisitions_waiting_max is "
                f"{options.acquisitions_waiting_max}",
                reason="full",
            )

    def check_writes(self) -> None:
        """Raise ServiceDownError while the metadata is frozen: no hub could claim a topic that this hub releases."""
        if self._hub.freezing.why is not None:
            raise ServiceDownError(self._hub.freezing.why)

    async def claim(self, name: Topic, expected: Version | None = None) -> OwnedTopic:
        """Return the topic once this hub owns it; claim it as for a client that another hub redirected here.

        It ignores that this hub may just have given up the topic for the balance.

        Raises: ConflictError - another live hub owns it, the owner record is not at version `expected`, or this hub is
            drained and the record does not name it.
        """
        if expected is not None:
            record = await self._record(name)
            if record is None or record.version != expected:
                raise _is_at(name, None if record is None else record.version, expected)
        for _ in range(_TRIES):
            self._hub.topics.take_back(name)
            try:
                return await self._acquired(name)
            except NotResponsibleForTopicError as redirect:
                await self._check_may_have(name, redirect)
        raise ServiceDownError(f"topic '{show_name(name)}' goes from hub to hub; try again")

    async def hand_over(self, name: Topic, target: HubInfo, expected: Version | None = None) -> bool:
        """Make `target` the owner of a topic of this hub; return whether the owner record is known to name it now.

        Raises: ConflictError - `target` is not alive or is this hub, or the owner record does not name this hub or is
            not at version `expected`.
        """
        self.check_writes()
        if not await self._hub.topics.ownership.may_hand_over(target):
            raise ConflictError(
                f"hub {target.address} of epoch {target.epoch} is not alive, or is this hub", reason="target"
            )
        topic = self._hub.topics.get(name)
        version = None if topic is None else topic.owner_version
        if topic is None:
            record = await self._record(name)
            if record is None or record.value.address != self._hub.me.address:
                owner = None if record is None else record.value.address
                said = "has no owner" if owner is None else f"is owned by {owner}"
                raise ConflictError(f"topic '{show_name(name)}' {said}", reason="owned", owner=owner)
            version = record.version
        if expected is not None and version != expected:
            raise _is_at(name, version, expected)
        # If the record names this hub but it does not serve the topic, claim it first. So this hub cannot start to
        # serve it while the record changes.
        return await self._hub.topics.hand_over(topic or await self.claim(name), target)

    async def _acquired(self, name: Topic) -> OwnedTopic:
        acquired: asyncio.Future[OwnedTopic] = asyncio.get_running_loop().create_future()

        def serve(topic: OwnedTopic) -> None:
            if not acquired.done():
                acquired.set_result(topic)

        def refuse(error: HedwigError) -> None:
            if not acquired.done():
                acquired.set_exception(error)

        self._hub.topics.with_topic(name, source=self, makes=True, should_claim=True, serve=serve, refuse=refuse)
        return await acquired

    async def _check_may_have(self, name: Topic, redirect: NotResponsibleForTopicError) -> None:
        """Return if a refused claim is worth another attempt: the redirect was this hub's choice, not to an owner.

        Raises: ConflictError - another hub owns the topic, or this hub is drained.
        """
        record = await self._record(name)
        if record is not None and record.value.address == redirect.text:
            raise ConflictError(
                f"topic '{show_name(name)}' is owned by {redirect.text}", reason="owned", owner=redirect.text
            )
        is_mine = record is not None and record.value.is_same(self._hub.me)
        if self._hub.topics.claims_nothing_new and not is_mine:
            raise _is_drained()

    async def _record(self, name: Topic) -> Versioned[HubInfo] | None:
        return await self._hub.metadata.ownership.read(name)


def _is_drained() -> ConflictError:
    return ConflictError("this hub is drained: it takes no topics; undrain it first", reason="drained")


def _is_at(name: Topic, version: Version | None, expected: Version) -> ConflictError:
    is_at = "is gone" if version is None else f"is at version {version}"
    return ConflictError(
        f"the owner record of topic '{show_name(name)}' {is_at}, not at {expected}",
        reason="version",
        version=None if version is None else str(version),
    )
