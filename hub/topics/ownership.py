"""Who owns a topic: claims and releases of owner records, and whom to redirect to."""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from hedwig.errors import (
    BadVersionError,
    MetadataError,
    NoRecordError,
    NotResponsibleForTopicError,
    ServiceDownError,
)
from hedwig.hub.topics.known_owners import KnownOwners
from hedwig.metadata import TopicOwnershipManager, change
from hedwig.model import HubInfo, Topic
from hedwig.names import show_name
from hedwig.versions import Version, Versioned

__all__ = ["Claim", "Liveness", "Ownership"]

_log = logging.getLogger(__name__)

_TRIES_MAX: Final = 5
_JUST_SEEN_S: Final = 1.0
"""How long an owner that was looked up is the answer for those who come back from it."""


class Liveness(Protocol):
    """Which hubs are alive."""

    @property
    def me(self) -> HubInfo:
        """This hub in its present incarnation. Raises ServiceDownError if it cannot prove to be alive."""
        ...

    @property
    def remaining_s(self) -> float:
        """Return for how long this hub is proven to be alive if nothing more is heard; once it is 0, it stays so."""
        ...

    async def is_alive(self, hub: HubInfo) -> bool:
        """Say whether this very incarnation of `hub` is alive. Raises ServiceDownError if that cannot be told."""
        ...

    def seems_alive(self, hub: HubInfo) -> bool:
        """Say whether `hub` is alive and keeps its topics as far as is known here; False if that is not known."""
        ...

    def choose(self, tried: Collection[bytes] = ()) -> HubInfo:
        """Return the hub that should own a topic nobody asked this hub to take, if possible none of those `tried`."""
        ...


@dataclass(frozen=True, slots=True)
class Claim:
    """An owner record that names this hub.

    `taken_over`: the record named a hub that did not release the topic. That is `former`, or None if it was this one.
    """

    version: Version
    taken_over: bool
    former: HubInfo | None = None


class Ownership:
    """Claims topics for this hub, by compare-and-set alone.

    Beside hubs of the original it names another hub that it chooses as the owner before it sends a client there, as
    they do: such a hub, asked for a topic without owner, would choose anew whatever the client was told, and might send
    it back here, and the original's client gives up when it is sent back. Then `for_originals` says which topics such
    hubs find where we do; no other is left for another hub to claim, which may be one of them.
    """

    def __init__(
        self,
        manager: TopicOwnershipManager,
        liveness: Liveness,
        known: KnownOwners,
        for_originals: Callable[[Topic], bool] | None = None,
    ) -> None:
        self._manager = manager
        self._liveness = liveness
        self._known = known
        self._for_originals = for_originals
        self._told = False

    def known_owner(self, topic: Topic, *, should_claim: bool, tried: Sequence[bytes] = ()) -> HubInfo | None:
        """Return another hub to send a request to that owns `topic`, if one is known, without asking anybody.

        `tried` are the addresses, host:port, of the hubs that have redirected the request, in order. One that was sent
        here by another hub is never answered from memory: that hub may have released the topic since it was looked up,
        or have chosen this one as its next owner. But if this hub was the last to redirect it, then nobody has sent it
        here: it found no hub where it was sent, which has died, perhaps, and is not known to be dead yet. Then nobody
        can take the topic, and the store need not say so each time.
        """
        if not should_claim:
            return self._known.find(topic)
        if not tried or not self._is_me(tried[-1]):
            return None
        owner = self._known.find(topic, _JUST_SEEN_S)
        return None if owner is None or not owner.names_in_requests.isdisjoint(tried) else owner

    def _is_me(self, tried: bytes) -> bool:
        try:
            return tried in self._liveness.me.names_in_requests
        except ServiceDownError:
            return False

    async def claim(
        self, topic: Topic, *, should_claim: bool, tried: Collection[bytes] = (), takes: bool = True
    ) -> Claim:
        """Make this hub the owner of `topic`, unless a hub that is alive is, or another should be.

        `tried` are the hubs that whoever asks has been at, which are not chosen again. If this hub does not take topics
        any more, that is always another.

        Raises: NotResponsibleForTopicError - its text is the address of the hub to ask; MetadataError;
            ServiceDownError - this hub may not claim now, or lost every race.
        """
        me = self._liveness.me
        self._known.forget(topic)
        is_for_any = self._for_originals is None or self._for_originals(topic)
        chosen = me if (should_claim and takes) or not is_for_any else self._liveness.choose(tried)
        taken_over, former = False, None

        async def next_owner(current: Versioned[HubInfo] | None) -> HubInfo:
            nonlocal chosen, taken_over, former
            owner = None if current is None else current.value
            taken_over, former = owner is not None, owner
            if owner is not None and owner.is_fleeting:
                raise self._not_together(topic, owner)
            if owner is not None and _same(owner, me):
                # All others find this hub alive, and send whoever asks back to it.
                chosen, former = me, None
            elif owner is not None and await self._liveness.is_alive(owner):
                self._known.note(topic, owner)
                raise NotResponsibleForTopicError(owner.address)
            if chosen == me and not takes:
                raise _takes_none(topic)
            if chosen != me and self._for_originals is None:
                raise NotResponsibleForTopicError(chosen.address)
            return chosen

        # Mostly nobody owns a topic that this hub is to claim, and a refusal shows who does. Another hub is named only
        # once the present owner is known.
        seen = None if chosen == me and takes else await self._manager.read(topic)
        try:
            version = await change(self._manager, topic, next_owner, seen=seen, tries=_TRIES_MAX)
        except (BadVersionError, NoRecordError) as exc:
            raise ServiceDownError(f"other hubs claim topic '{show_name(topic)}' at the same time; try again") from exc
        if chosen != me:
            raise NotResponsibleForTopicError(chosen.address)
        assert version is not None, "it was written"
        return Claim(version, taken_over, former)

    def _not_together(self, topic: Topic, owner: HubInfo) -> ServiceDownError:
        """Return the error for a topic of a hub that cannot be in one cluster with this one; it is logged once."""
        error = ServiceDownError(
            f"topic '{show_name(topic)}' is owned by the original hub {owner.address}, whose owner records are "
            "ephemeral nodes that nobody can take over: start it with metadata_manager_based_topic_manager_enabled=true"
        )
        if not self._told:
            self._told = True
            _log.error("%s", error)
        return error

    async def give_back(self, topic: Topic, claim: Claim) -> None:
        """Undo a claim of a topic that this hub cannot serve.

        A topic that was released has no owner again. Else the record names the hub that left it, as before: only that
        tells the next owner to shut out what this hub may still write.
        """
        if not claim.taken_over:
            await self.release(topic, claim.version)
        elif claim.former is not None:
            try:
                await self._manager.write(topic, claim.former, claim.version)
            except (BadVersionError, NoRecordError):
                pass
            except MetadataError as exc:
                # The record names this hub, which takes the topic over from itself when it is asked for it.
                _log.warning("cannot give topic '%s' back: %s", show_name(topic), exc)

    async def holds(self, topic: Topic, version: Version) -> bool:
        """Say whether the owner record is the one that a claim of this hub wrote. Raises: MetadataError."""
        current = await self._manager.read(topic)
        return current is not None and current.version == version

    async def may_hand_over(self, target: HubInfo) -> bool:
        """Say whether `target` is another hub that lives. Raises ServiceDownError if that cannot be told."""
        return not _same(target, self._liveness.me) and await self._liveness.is_alive(target)

    async def hand_over(self, topic: Topic, version: Version, target: HubInfo) -> bool:
        """Name `target` as the owner in place of this hub, which serves the topic no more; return whether that is done.

        One write, so nobody finds the topic without an owner. What `target` finds is a record that names it for a topic
        that it does not serve: it takes that up, once it is asked, as it would what another hub left behind. If it has
        died by then, the record names a dead owner, whose topic any hub takes over.
        """
        try:
            await self._manager.write(topic, target, version)
        except (BadVersionError, NoRecordError):
            return False  # Others found this hub dead, and have the topic.
        except MetadataError as exc:
            # Whoever the record names now lives, and serves the topic once it is asked for it.
            _log.warning("cannot hand topic '%s' over to hub %s: %s", show_name(topic), target.address, exc)
            return False
        _log.info("topic '%s' is handed over to hub %s", show_name(topic), target.address)
        self._known.note(topic, target)
        return True

    async def release(self, topic: Topic, version: Version) -> None:
        """Delete the owner record of this hub. A record that changed meanwhile is not ours to delete."""
        try:
            await self._manager.delete(topic, version)
        except (BadVersionError, NoRecordError):
            pass
        except MetadataError as exc:
            # The record stays and names an incarnation that no longer serves the topic; this hub claims it anew when
            # it is asked, and any other once this hub has ended.
            _log.warning("cannot release topic '%s': %s", show_name(topic), exc)


def _takes_none(topic: Topic) -> ServiceDownError:
    return ServiceDownError(f"this hub is shutting down, and knows of no other for topic '{show_name(topic)}'")


def _same(one: HubInfo, other: HubInfo) -> bool:
    return one.epoch == other.epoch and one.address == other.address
