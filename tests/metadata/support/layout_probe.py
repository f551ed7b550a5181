"""The methods that tests of layouts need of a probe beyond the suite. The probe of each of our backends has them."""

from typing import Protocol, runtime_checkable

from hedwig.metadata.testing.probe import Probe

__all__ = ["LayoutProbe"]


@runtime_checkable
class LayoutProbe(Probe, Protocol):
    """A Probe that changes what `format` made."""

    async def write_layout(self, kind: str | None, major: int, minor: int) -> None:
        """Replace the layout record, as another backend (None: this one) or another release would have written it."""

    async def damage_layout(self) -> None:
        """Replace the layout record by unreadable bytes."""

    async def drop_structure(self) -> str:
        """Remove a thing that `format` makes, but not the layout record; return the name that an error must give."""
