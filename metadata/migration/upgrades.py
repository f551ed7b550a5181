"""Bringing a store of an older layout up to the present one.

A backend whose stores may be older offers steps. Each looks for what is not in its present form, and changes that by
compare-and-set; what is in that form it leaves. The layout record is written by the last of them. So an upgrade that
was ended at any point, also by `kill -9`, is gone on with by giving it again, and two at a time do no harm.

Format 1.0 is the first of ours, so a store that we laid out has nothing to upgrade. What is older are stores in
ZooKeeper that the original's releases 4.0 and 4.1 filled.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.contract.layout import Layout, check_layout
from hedwig.metadata.contract.url import MetadataUrl
from hedwig.metadata.store import factory_of

__all__ = ["OffersUpgrades", "StoreUpgrade", "UpgradeStep", "open_upgrade"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeStep:
    """One kind of change: its name, and what it does, as a phrase."""

    name: str
    does: str


class StoreUpgrade(Protocol):
    """What is to be done to one store. Use it with `async with`."""

    layout: Layout | None
    """The record that was found; None if there is none."""
    steps: Sequence[UpgradeStep]
    """In the order in which they must be carried out."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def hubs(self) -> Sequence[str]:
        """Return the addresses of the hubs that are registered in the store's own place."""
        ...

    async def count(self, step: UpgradeStep, advance: Callable[[int], None]) -> int:
        """Return how many records `step` would change. `advance` is told how many more were looked at."""
        ...

    async def carry_out(self, step: UpgradeStep, advance: Callable[[int], None]) -> int:
        """Change all that `step` is about; return how many records that were.

        Raises: MetadataError - the store does not answer, or others go on writing the older form.
        """
        ...


@runtime_checkable
class OffersUpgrades(Protocol):
    """A BackendFactory whose stores may be older than this release."""

    async def open_upgrade(self, url: MetadataUrl, options: StoreOptions) -> StoreUpgrade:
        """Look at the store at `url`, and say what is to be done.

        Raises: LayoutMissingError - nothing is there; LayoutMismatchError - a newer release's, or another backend's.
        """
        ...


class _NothingOlder:
    """A store of a backend that has had one layout only."""

    def __init__(self, layout: Layout) -> None:
        self.layout: Layout | None = layout
        self.steps: Sequence[UpgradeStep] = ()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def hubs(self) -> Sequence[str]:
        return ()

    async def count(self, step: UpgradeStep, advance: Callable[[int], None]) -> int:  # noqa: ARG002
        raise ValueError(f"there is no step {step.name!r}")

    async def carry_out(self, step: UpgradeStep, advance: Callable[[int], None]) -> int:  # noqa: ARG002
        raise ValueError(f"there is no step {step.name!r}")


async def open_upgrade(url: str, options: StoreOptions | None = None) -> StoreUpgrade:
    """Look at the metadata store at `url`, and say what is to be done to bring it up to the present layout.

    Raises: LayoutMissingError - nothing is there; LayoutMismatchError - a newer release laid it out, or another
        backend; ConfigurationError, MetadataUnavailableError - as `open_metadata`.
    """
    parsed = MetadataUrl.parse(url)
    options = options or StoreOptions()
    factory = factory_of(parsed)
    if isinstance(factory, OffersUpgrades):
        return await factory.open_upgrade(parsed, options)
    found = await factory.read_layout(parsed, options)
    return _NothingOlder(check_layout(found, kind=found.kind if found else "", url=url))
