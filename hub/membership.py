"""The two shapes of a hub, standalone and cluster: how it registers, where its messages go, how long it may serve."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from hedwig.errors import HedwigError
from hedwig.hub.ledgers import LedgerStore
from hedwig.hub.topics.ownership import Liveness, SharedLogs
from hedwig.metadata import MetadataStore
from hedwig.model import HubInfo

if TYPE_CHECKING:
    from hedwig.hub.incarnation import Incarnation
    from hedwig.hub.topics.balance import Balance

__all__ = ["Member", "Membership"]


class Member(Protocol):
    """The hub, as its shape sees it."""

    def registered(
        self,
        me: HubInfo,
        liveness: Liveness,
        ledgers: LedgerStore,
        logs: SharedLogs | None = None,
        *,
        stores_once: bool = True,
    ) -> "Incarnation":
        """Serve under a new registration, with no topics; `lost` must have returned for the one before.

        `stores_once`: no hub is alive that would not recognise what is published again.
        """
        ...

    async def lost(self, why: str) -> None:
        """Serve no client under the present registration any more; return once all its work has ended."""
        ...

    def give_up(self, error: HedwigError) -> None:
        """Record that this hub will not be registered again; call `lost` first."""
        ...


class Membership(Protocol):
    """What differs between a standalone hub and a hub of a cluster."""

    @property
    def balance(self) -> "Balance | None":
        """The part that balances the topics among the hubs; None in a standalone hub."""
        ...

    async def open(self) -> None:
        """Open the parts that the hub needs before the metadata. Raises: HedwigError - the hub cannot start."""
        ...

    async def join(
        self,
        address: HubInfo,
        listeners: Mapping[str, str],
        admin_port: int | None,
        hub: Member,
        metadata: MetadataStore,
    ) -> None:
        """Register, and report this and every later loss and registration to `hub`. Raises: HedwigError.

        `listeners` are the addresses of the named listeners, as redirects spell them.
        """
        ...

    def listeners(self) -> Mapping[str, Mapping[str, str]]:
        """Return the addresses of the named listeners of other live hubs, by the address of the hub and the name."""
        ...

    def is_proven(self) -> bool:
        """Say whether the present registration surely holds now. It must be cheap: it runs before each answer."""
        ...

    async def leave(self) -> None:
        """End what `join` began, before the metadata are closed. May be called at any stage."""
        ...

    async def close(self) -> None:
        """Close what `open` has opened, after `leave`. May be called at any stage."""
        ...
