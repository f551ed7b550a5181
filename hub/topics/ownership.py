"""Ownership of topics: claims and releases of owner records, and the hub to redirect a client to."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from hedwig.errors import (
    BadVersionError,
    HedwigError,
    MetadataError,
    NoRecordError,
    NotResponsibleForTopicError,
    ServiceDownError,
)
from hedwig.hub.topics.known_owners import KnownOwners
from hedwig.metadata import TopicOwnershipManager, change
from hedwig.metadata.contract.operations import RecordKey, Write
from hedwig.model import HubInfo, Topic
from hedwig.names import show_name
from hedwig.versions import Version, Versioned

__all__ = ["Claim", "Liveness", "Ownership", "SharedLogs"]

_log = logging.getLogger(__name__)

_TRIES_MAX: Final = 5
_JUST_SEEN_S: Final = 1.0
"""How long the hub repeats a redirect from memory to a client that comes back from that owner."""


class Liveness(Protocol):
    """Which hubs are alive."""

    @property
    def me(self) -> HubInfo:
        """This hub in its present incarnation. Raises: ServiceDownError - it cannot prove that it is alive."""
        ...

    @property
    def remaining_s(self) -> float:
        """For how many seconds this hub is proven to be alive, without further answers. Once 0, it stays 0."""
        ...

    async def is_alive(self, hub: HubInfo) -> bool:
        """Say whether this incarnation of `hub` is alive. Raises: ServiceDownError - it cannot be determined."""
        ...

    def seems_alive(self, hub: HubInfo) -> bool:
        """Say whether `hub` is alive and keeps its topics, as far as this hub knows; False if unknown."""
        ...

    def choose(self, tried: Collection[bytes] = ()) -> HubInfo:
        """Return the hub that should own a topic that no client asks this hub to claim; avoid those `tried`."""
        ...


class SharedLogs(Protocol):
    """The shared logs of this hub and of the others."""

    async def begin_log(self) -> int | None:
        """Return the log of this hub, None if it writes none. It begins with the first call. Raises: MetadataError."""
        ...

    async def shut_out(self, log: int) -> bool:
        """Shut the writer of the log of a dead hub out, for good; return whether that hub can append nothing now.

        Raises: MetadataError, LedgerError, TimeoutError.
        """
        ...


@dataclass(frozen=True, slots=True)
class Claim:
    """An owner record that names this hub.

    `taken_over`: the record named a hub that did not release the topic. `former` is that hub, or None if it was this
    one. `is_shut_out` says that the former hub wrote a shared log, and was shut out of it before the claim.
    """

    version: Version
    taken_over: bool
    former: HubInfo | None = None
    is_shut_out: bool = False


class Ownership:
    """Claims topics for this hub, by compare-and-set alone.

    In a cluster with hubs of the original, this hub writes the owner record of the chosen hub before it redirects a
    client there. Hubs of the original do the same. A hub of the original that is asked for a topic without owner
    chooses one itself, and may redirect the client back. The original's client gives up when it is sent back.

    A dead hub is shut out of its shared log before a topic of it is claimed. Else a hub that dies between its claim and
    that would hide from the next one which hub still writes.

    `for_originals` says for which topics such hubs use the same record as we do. This hub claims any other topic
    itself, because the chosen hub may be one of the original.
    """

    def __init__(
        self,
        manager: TopicOwnershipManager,
        liveness: Liveness,
        known: KnownOwners,
        for_originals: Callable[[Topic], bool] | None = None,
        logs: SharedLogs | None = None,
    ) -> None:
        self._manager = manager
        self._logs = logs
        self._liveness = liveness
        self._known = known
        self._for_originals = for_originals
        self._has_logged = False
        self._meets_owners = False
        """Whether the last topic to claim had an owner."""

    def known_owner(self, topic: Topic, *, should_claim: bool, tried: Sequence[bytes] = ()) -> HubInfo | None:
        """Return another hub that owns `topic`, from memory; None if none is known.

        `tried` are the addresses, host:port, of the hubs that have redirected the request, in order. If another hub
        redirected it here, the answer never comes from memory. That hub may have released the topic since, or have
        chosen this hub as the next owner.

        If this hub issued the last redirect, the client came back because that hub did not answer. It may be dead but
        not yet known to be dead. No hub can take the topic then, so repeat the redirect without a read of the store.
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
        """Make this hub the owner of `topic`, unless a live hub is the owner, or another should be.

        `tried` are the hubs that have redirected the client; if possible none of them is chosen again. Without `takes`,
        this hub takes no topics any more, and another is always chosen.

        Raises: NotResponsibleForTopicError - its text is the address of the hub to ask; MetadataError;
            ServiceDownError - this hub may not claim now, or lost every race.
        """
        me = self._liveness.me
        self._known.forget(topic)
        is_for_any = self._for_originals is None or self._for_originals(topic)
        chosen = me if (should_claim and takes) or not is_for_any else self._liveness.choose(tried)
        taken_over, former, is_shut_out = False, None, False

        async def next_owner(current: Versioned[HubInfo] | None) -> HubInfo:
            nonlocal chosen, taken_over, former, is_shut_out
            owner = None if current is None else current.value
            self._meets_owners = owner is not None
            taken_over, former = owner is not None, owner
            if owner is not None and owner.is_fleeting:
                raise self._not_together(topic, owner)
            if owner is not None and owner.is_same(me):
                # All other hubs find this hub alive, and redirect clients back to it.
                chosen, former = me, None
            elif owner is not None and await self._liveness.is_alive(owner):
                self._known.note(topic, owner)
                raise NotResponsibleForTopicError(owner.address)
            if chosen == me and not takes:
                raise _takes_none(topic)
            if chosen != me and self._for_originals is None:
                raise NotResponsibleForTopicError(chosen.address)
            if self._logs is None or chosen != me:
                return chosen
            is_shut_out = former is not None and await self._shut_out(former)
            return replace(me, log=await self._logs.begin_log())

        # A topic to claim mostly has no owner, so write without a read. If it has one, the refused write returns it.
        # After the end of a hub topics have owners, and a read costs much less than a refused write. Before this hub
        # names another as owner, it reads the present owner.
        is_likely_free = chosen == me and takes and not self._meets_owners
        seen = None if is_likely_free else await self._manager.read(topic)
        try:
            version = await change(self._manager, topic, next_owner, seen=seen, tries=_TRIES_MAX)
        except (BadVersionError, NoRecordError) as exc:
            raise ServiceDownError(f"other hubs claim topic '{show_name(topic)}' at the same time; try again") from exc
        if chosen != me:
            raise NotResponsibleForTopicError(chosen.address)
        assert version is not None, "it was written"
        return Claim(version, taken_over, former, is_shut_out)

    async def take_over(self, found: Sequence[tuple[Topic, Versioned[HubInfo]]]) -> Mapping[Topic, Claim | HedwigError]:
        """Make this hub the owner of topics of dead hubs, in one go. `found` are their owner records.

        Return the claims, and the errors of writes that failed or whose outcome is unknown. A topic that has changed
        since is in neither. If an unknown write was done, the next request for the topic claims it anew.

        Raises: ServiceDownError - this hub may not claim now, or it cannot be determined who is alive; MetadataError;
            LedgerError; TimeoutError - as `SharedLogs.shut_out`.
        """
        me = self._liveness.me
        is_out: dict[HubInfo, bool] = {}
        for former in dict.fromkeys(record.value for _, record in found):
            if not former.is_fleeting and not former.is_same(me) and not await self._liveness.is_alive(former):
                is_out[former] = await self._shut_out(former)
        if self._logs is not None:
            me = replace(me, log=await self._logs.begin_log())
        taken = [(topic, record) for topic, record in found if record.value in is_out]
        if not taken:
            return {}
        for topic, _ in taken:
            self._known.forget(topic)
        outcomes = await self._manager.apply([Write(RecordKey(topic), me, record.version) for topic, record in taken])
        claims: dict[Topic, Claim | HedwigError] = {}
        for (topic, record), outcome in zip(taken, outcomes, strict=True):
            if outcome.version is not None:
                claims[topic] = Claim(outcome.version, True, record.value, is_out[record.value])
            elif outcome.error is not None and not isinstance(outcome.error, BadVersionError | NoRecordError):
                claims[topic] = outcome.error
        return claims

    async def _shut_out(self, former: HubInfo) -> bool:
        """Shut a dead hub out of its shared log; return whether it can append nothing from now on."""
        return self._logs is not None and former.log is not None and await self._logs.shut_out(former.log)

    def _not_together(self, topic: Topic, owner: HubInfo) -> ServiceDownError:
        """Return the error for a topic whose owner cannot share a cluster with this hub; log it once."""
        error = ServiceDownError(
            f"topic '{show_name(topic)}' is owned by the original hub {owner.address}, whose owner records are "
            "ephemeral nodes that nobody can take over: start it with metadata_manager_based_topic_manager_enabled=true"
        )
        if not self._has_logged:
            self._has_logged = True
            _log.error("%s", error)
        return error

    async def give_back(self, topic: Topic, claim: Claim) -> None:
        """Undo a claim of a topic that this hub cannot serve.

        If the topic was released before, the record is deleted. Else the record names the former hub again. Only such a
        record makes the next owner shut out writes of this hub that may still arrive.
        """
        if not claim.taken_over:
            await self.release(topic, claim.version)
        elif claim.former is not None:
            try:
                await self._manager.write(topic, claim.former, claim.version)
            except (BadVersionError, NoRecordError):
                pass
            except MetadataError as exc:
                # The record names this hub, which takes the topic over from itself at the next request for it.
                _log.warning("cannot give topic '%s' back: %s", show_name(topic), exc)

    async def holds(self, topic: Topic, version: Version) -> bool:
        """Say whether the owner record is the one that a claim of this hub wrote. Raises: MetadataError."""
        current = await self._manager.read(topic)
        return current is not None and current.version == version

    async def may_hand_over(self, target: HubInfo) -> bool:
        """Say whether `target` is another live hub. Raises: ServiceDownError - it cannot be determined."""
        return not target.is_same(self._liveness.me) and await self._liveness.is_alive(target)

    async def hand_over(self, topic: Topic, version: Version, target: HubInfo) -> bool:
        """Name `target` as the owner instead of this hub, which has stopped serving the topic; return whether it is.

        It is one write, so no hub finds the topic without an owner. `target` then finds a record that names it for a
        topic that it does not serve. At the next request it takes the topic over, as from another hub. If `target` has
        died by then, the record names a dead owner, and any hub takes the topic over.
        """
        try:
            await self._manager.write(topic, target, version)
        except (BadVersionError, NoRecordError):
            return False  # Another hub found this hub dead, and has claimed the topic.
        except MetadataError as exc:
            # The hub that the record names now is alive, and serves the topic at the next request for it.
            _log.warning("cannot hand topic '%s' over to hub %s: %s", show_name(topic), target.address, exc)
            return False
        _log.info("topic '%s' is handed over to hub %s", show_name(topic), target.address)
        self._known.note(topic, target)
        return True

    async def release(self, topic: Topic, version: Version) -> None:
        """Delete the owner record of this hub. Leave a record that changed meanwhile."""
        try:
            await self._manager.delete(topic, version)
        except (BadVersionError, NoRecordError):
            pass
        except MetadataError as exc:
            # The record stays, and names an incarnation that no longer serves the topic. This hub claims the topic anew
            # at the next request for it. Other hubs can claim it once this hub has ended.
            _log.warning("cannot release topic '%s': %s", show_name(topic), exc)


def _takes_none(topic: Topic) -> ServiceDownError:
    return ServiceDownError(f"this hub is shutting down, and knows of no other for topic '{show_name(topic)}'")
