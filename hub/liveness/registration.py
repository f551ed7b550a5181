"""One incarnation of this hub: what it is called, and whether it may still serve."""

from collections.abc import Collection

from hedwig.errors import ServiceDownError
from hedwig.hub.liveness.lease import Lease
from hedwig.hub.liveness.live_hub import LiveHub
from hedwig.hub.liveness.live_set import LiveSet
from hedwig.hub.liveness.options import LivenessOptions
from hedwig.hub.liveness.placement import choose
from hedwig.hub.liveness.verdicts import Verdicts
from hedwig.model import HubInfo

__all__ = ["Registration"]


class Registration:
    """The liveness of a hub from one registration to its end; it never comes back once it is over.

    `hub` is this hub with the epoch of this registration. Ask `is_proven` before every answer given as an owner: after
    a process was stopped, its work may go on before any timer fires.
    """

    def __init__(
        self, hub: HubInfo, lease: Lease, live_set: LiveSet, verdicts: Verdicts, options: LivenessOptions
    ) -> None:
        self.hub = hub
        self._lease = lease
        self._live_set = live_set
        self._verdicts = verdicts
        self._options = options
        self._load = 0

    def is_proven(self) -> bool:
        """Say whether ZooKeeper surely counts this incarnation as alive; one look at the clock."""
        return self._lease.is_proven()

    @property
    def remaining_s(self) -> float:
        """Return for how long it is proven if nothing is heard any more."""
        return self._lease.remaining_s()

    @property
    def me(self) -> HubInfo:
        """Return `hub`. Raises ServiceDownError if it is not proven to be alive."""
        if not self._lease.is_proven():
            raise ServiceDownError(f"hub {self.hub.address} cannot prove that it is alive; ask again")
        return self.hub

    async def is_alive(self, hub: HubInfo) -> bool:
        """Say whether this very incarnation of `hub` is alive. Raises ServiceDownError if that cannot be told.

        An incarnation is an address and an epoch. That one is dead is read from its host node, after a commit; but not
        of those that were at this address before: the node of this one is in the place of theirs, and the live set may
        still have to hear of that.
        """
        if self._is_me_or_before(hub):
            return self.me.epoch == hub.epoch
        return await self._verdicts.is_alive(hub)

    def seems_alive(self, hub: HubInfo) -> bool:
        """Say whether `hub` is alive and keeps its topics as far as is known here; False if that is not known."""
        if self._is_me_or_before(hub):
            return hub.epoch == self.hub.epoch and self.is_proven()
        found = self._live_set.find(hub) if self._live_set.is_watched else None
        return found is not None and not found.is_draining

    def _is_me_or_before(self, hub: HubInfo) -> bool:
        # A node that is made later has the greater czxid. One there is that this hub has yet to hear of, if somebody
        # took its own away by hand.
        return hub.address == self.hub.address and hub.epoch <= self.hub.epoch

    def choose(self, tried: Collection[bytes] = ()) -> HubInfo:
        """Return the hub that should own a topic nobody asked this hub to take.

        `tried` are hubs, as clients call them, that have sent whoever asks away: one of them is chosen only if there is
        no other that takes topics. Raises ServiceDownError, as `me`.
        """
        mine = LiveHub(self.me, self._load)
        hubs = [mine, *(hub for hub in self._live_set.hubs if hub.info.address != self.hub.address)]
        if tried:
            new = [hub for hub in hubs if not hub.is_draining and hub.info.names_in_requests.isdisjoint(tried)]
            hubs = new or hubs
        return choose(hubs, self._options.placement, self._options.random).info

    def set_load(self, load: int) -> None:
        """Count with this load when choosing; the others hear of it from the host node."""
        self._load = load
