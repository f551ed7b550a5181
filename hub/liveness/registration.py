"""One incarnation of this hub: its name, and whether it may still serve."""

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from hedwig.errors import ServiceDownError
from hedwig.hub.liveness.lease import Lease
from hedwig.hub.liveness.live_hub import DRAINING_LOAD, LiveHub
from hedwig.hub.liveness.live_set import LiveSet
from hedwig.hub.liveness.options import LivenessOptions
from hedwig.hub.liveness.placement import Placed, choose
from hedwig.hub.liveness.verdicts import Verdicts
from hedwig.model import HubInfo

__all__ = ["Registration"]

_SHOWN_AFTER_S: Final = 3.0
"""How long a topic may take until the host node of its hub counts it: until the client is there, and the next beat."""


class Registration:
    """The liveness of a hub from one registration to its end. Once it is over, it never comes back.

    `hub` is this hub with the epoch of this registration. Check `is_proven` before every answer given as an owner: a
    resumed process may run other work before its timers fire.
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
        self._placed = Placed(options.clock)

    def is_proven(self) -> bool:
        """Say whether ZooKeeper surely counts this incarnation as alive. It costs one read of the clock."""
        return self._lease.is_proven()

    @property
    def remaining_s(self) -> float:
        """For how many seconds it stays proven without further answers."""
        return self._lease.remaining_s()

    @property
    def me(self) -> HubInfo:
        """`hub`. Raises: ServiceDownError - it is not proven to be alive."""
        if not self._lease.is_proven():
            raise ServiceDownError(f"hub {self.hub.address} cannot prove that it is alive; ask again")
        return self.hub

    async def is_alive(self, hub: HubInfo) -> bool:
        """Say whether this incarnation of `hub` is alive. Raises: ServiceDownError - it cannot be determined.

        An incarnation is an address and an epoch. The host node, read after a commit, shows whether one is dead. For
        earlier incarnations at this hub's own address, nothing is read: the node of this one has replaced theirs. The
        live set may not show that yet.
        """
        if self._is_me_or_before(hub):
            return self.me.epoch == hub.epoch
        return await self._verdicts.is_alive(hub)

    def seems_alive(self, hub: HubInfo) -> bool:
        """Say whether `hub` is alive and keeps its topics, as far as this hub knows; False if unknown."""
        if self._is_me_or_before(hub):
            return hub.epoch == self.hub.epoch and self.is_proven()
        live_hub = self._live_set.find(hub) if self._live_set.is_watched else None
        return live_hub is not None and not live_hub.is_draining

    def _is_me_or_before(self, hub: HubInfo) -> bool:
        # A node that is made later has a greater czxid. If an operator deleted the node of this hub, there may be a
        # later incarnation at its address that it does not know yet.
        return hub.address == self.hub.address and hub.epoch <= self.hub.epoch

    def choose(self, tried: Collection[bytes] = ()) -> HubInfo:
        """Return the hub that should own a topic that no client asks this hub to claim.

        `tried` are the hubs, named as in requests, that have redirected the client. One of them is chosen only if no
        other hub takes topics.

        Raises: ServiceDownError - as `me`.
        """
        read_at_s = self._live_set.read_at_s
        known_at_s = 0.0 if read_at_s is None else read_at_s - _SHOWN_AFTER_S
        self._placed.forget_before(known_at_s)
        others = [hub for hub in self._live_set.hubs if hub.info.address != self.hub.address]
        placed = {
            address: self._placed.since(address, known_at_s)
            for address in (self.hub.address, *(hub.info.address for hub in others))
        }
        hubs = [replace(hub, load=hub.load + placed[hub.info.address]) for hub in (self._as_seen(), *others)]
        if tried:
            new = [hub for hub in hubs if not hub.is_draining and hub.info.names_in_requests.isdisjoint(tried)]
            hubs = new or hubs
        chosen = choose(hubs, self._options.placement, self._options.random, placed)
        self._placed.note(chosen.info.address)
        return chosen.info

    def _as_seen(self) -> LiveHub:
        """Return this hub with the load that was read with those of the others, so that all are equally old.

        Raises: ServiceDownError - as `me`.
        """
        seen = self._live_set.find(self.me)
        if seen is None or self._load >= DRAINING_LOAD:
            return LiveHub(self.me, self._load)
        return seen

    def set_load(self, load: int) -> None:
        """Set the load that `choose` uses for this hub. The other hubs read it from the host node."""
        self._load = load
