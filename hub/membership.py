"""The two shapes of a hub, standalone and cluster: how it registers, where its messages go, how long it may serve."""

from typing import TYPE_CHECKING, Protocol

from hedwig.errors import HedwigError
from hedwig.hub.ledgers import LedgerStore
from hedwig.hub.topics.ownership import Liveness
from hedwig.metadata import MetadataStore
from hedwig.model import HubInfo

if TYPE_CHECKING:
    from hedwig.hub.incarnation import Incarnation
    from hedwig.hub.topics.balance import Balance

__all__ = ["Member", "Membership"]


class Member(Protocol):
    """The hub, as its shape sees it."""

    def registered(self, me: HubInfo, liveness: Liveness, ledgers: LedgerStore) -> "Incarnation":
        """Serve under a new registration, from nothing; `lost` must have returned for the one before."""
        ...

    async def lost(self, why: str) -> None:
        """Serve nobody under the present registration any more; return once nothing of it goes on."""
        ...

    def give_up(self, error: HedwigError) -> None:
        """Take note that this hub will not be registered again; after `lost`."""
        ...


class Membership(Protocol):
    """What differs between the two."""

    @property
    def balance(self) -> "Balance | None":
        """What shares the topics out among the hubs; None where there is only one."""
        ...

    async def open(self) -> None:
        """Open what is needed before the metadata. Raises: HedwigError - the hub cannot start."""
        ...

    async def join(self, address: HubInfo, admin_port: int | None, hub: Member, metadata: MetadataStore) -> None:
        """Register, and tell `hub` of it, and of every later loss and registration. Raises: HedwigError."""
        ...

    def is_proven(self) -> bool:
        """Say whether the present registration surely holds at this moment. Cheap: asked before everything sent."""
        ...

    async def close(self) -> None:
        """Let go of everything, the registration first. May be called at any stage."""
        ...
