"""What the tests of layouts ask of a probe beyond the suite: each backend of ours has it."""

from typing import Protocol, runtime_checkable

from hedwig.metadata.testing.probe import Probe

__all__ = ["LayoutProbe"]


@runtime_checkable
class LayoutProbe(Probe, Protocol):
    """A Probe that changes what `format` made."""

    async def write_layout(self, kind: str | None, major: int, minor: int) -> None:
        """Replace the layout record, as another backend (None: this one) or another release would have written it."""

    async def damage_layout(self) -> None:
        """Replace the layout record by something that nobody can read."""

    async def drop_structure(self) -> str:
        """Take away a thing that `format` makes, but not the layout record; return the name that an error must give."""
