"""Which hubs are alive, as each hub sees it.

A hub that was declared dead does not learn of it. It has no lease, and goes on.
"""

from collections.abc import Collection
from random import Random
from typing import Final

from hedwig.errors import ServiceDownError
from hedwig.hub.liveness import DRAINING_LOAD, LiveHub
from hedwig.model import HubInfo

__all__ = ["LivenessModel", "Register"]

_ALWAYS_S: Final = 3600.0


class Register:
    """The registered hubs, each with its epoch."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.hubs: dict[str, HubInfo] = {}
        self.leaving: set[str] = set()
        """Hubs that are not chosen as owners if there is another."""
        self._epochs = 0

    def add(self, host: str, port: int) -> HubInfo:
        """Register a hub with a new epoch."""
        self._epochs += 1
        hub = self.hubs[host] = HubInfo(host=host, port=port, epoch=self._epochs)
        self.leaving.discard(host)
        return hub

    def remove(self, hub: HubInfo) -> None:
        """Declare one registration of a hub dead."""
        if self.has(hub):
            del self.hubs[hub.host]

    def live(self) -> list[LiveHub]:
        """Return the registered hubs, sorted by address."""
        hubs = sorted(self.hubs.items())
        return [LiveHub(hub, DRAINING_LOAD if name in self.leaving else 0) for name, hub in hubs]

    def has(self, hub: HubInfo) -> bool:
        """Say whether this incarnation of a hub is registered."""
        registered = self.hubs.get(hub.host)
        return registered is not None and registered.is_same(hub)


class LivenessModel:
    """As hub.topics.ownership.Liveness, for one registration of a hub."""

    def __init__(self, register: Register, me: HubInfo) -> None:
        self._register = register
        self.me = me
        self.is_cut = False
        self.remaining_s = _ALWAYS_S

    async def is_alive(self, hub: HubInfo) -> bool:
        if self.is_cut:
            raise ServiceDownError("nobody says who is alive")
        return self.seems_alive(hub)

    def seems_alive(self, hub: HubInfo) -> bool:
        return self._register.has(hub)

    def choose(self, tried: Collection[bytes] = ()) -> HubInfo:
        hubs = [hub for name, hub in self._register.hubs.items() if name not in self._register.leaving]
        fit = [hub for hub in hubs if f"{hub.host}:{hub.port}".encode() not in tried] or hubs
        return self._register.random.choice(fit) if fit else self.me
