"""A hub while the metadata store is frozen: no write of its own is under way, and none begins.

Who freezes a store says so in a record of it (metadata/freezing.py), and then asks each hub to freeze. A hub that is
frozen refuses publishes, subscriptions and claims; what it owns it keeps, and deliveries go on. Consume pointers stay
in memory until the freeze is over. A hub goes by the record alone: it thaws once that says so, or once nobody has seen
to it for as long as it grants, by lifting the freeze for all.
"""

import asyncio
import logging
from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, Any, Final

from hedwig.clock import Clock
from hedwig.errors import ConfigurationError, HedwigError, MetadataError
from hedwig.metadata import MetadataStore, NamedRecords, WriteGate
from hedwig.metadata.freezing import Freeze, FreezeState, read_freeze, replace_freeze
from hedwig.metadata.migration.run import Phase, read_state

if TYPE_CHECKING:
    from hedwig.hub.incarnation import Incarnation

__all__ = ["Freezing", "NotFrozenError", "StillFrozenError"]

_log = logging.getLogger(__name__)

_LOOK_S: Final = 1.0
"""How often a frozen hub looks whether the freeze is over."""


class NotFrozenError(HedwigError):
    """A hub was to freeze, but the store is not frozen."""


class StillFrozenError(HedwigError):
    """A hub was to thaw, but the store is frozen still."""


class Freezing:
    """Freezes one hub with the store that it uses, and thaws it. `run` is to be run for as long as the hub lives."""

    def __init__(self, gate: WriteGate, url: str, clock: Clock) -> None:
        self._gate = gate
        self._url = url
        self._clock = clock
        self._random = Random()
        self._metadata: MetadataStore | None = None
        self._turn = asyncio.Lock()
        self._wake = asyncio.Event()
        self._seen: Freeze | None = None
        self._seen_at = clock.monotonic()
        self._is_unknown = False
        """Whether the record has to be read before anything may be written."""

    @property
    def why(self) -> str | None:
        """Say why nothing may be written; None if it may."""
        return self._gate.why_closed

    @property
    def is_writing(self) -> bool:
        """Whether a write is under way."""
        return self._gate.running > 0

    def attach(self, metadata: MetadataStore) -> None:
        """Say which store it is about. Before anything else."""
        self._metadata = metadata

    async def check_usable(self) -> None:
        """Raise ConfigurationError if no hub may start on this store: it was moved elsewhere, or is being filled."""
        assert self._metadata is not None, "it was attached"
        state = await read_state(self._metadata)
        if (
            state is not None
            and state.phase is not Phase.DONE
            and await anext(self._metadata.topics(), None) is not None
        ):
            raise ConfigurationError(
                f"{self._url} is being filled from {state.source}, which has not come to its end, so no hub may start "
                "on it: give the command hedwig-admin metadata migrate again; or, if all of it is to go: hedwig-admin "
                f"metadata format --wipe --metadata {self._url}"
            )
        found = await read_freeze(self._store)
        if found is not None and found.state is FreezeState.MOVED:
            raise ConfigurationError(
                f"{found.what}, so no hub may start on {self._url}: set the option metadata to {found.target}; to go "
                f"back to what this store held then: hedwig-admin metadata thaw --metadata {self._url}"
            )

    def registered(self) -> None:
        """Write nothing under a new registration before the record was looked at.

        Whoever froze the store may have looked who is registered while this hub was not.
        """
        self._is_unknown = True
        self._gate.hold()
        self._wake.set()

    async def run(self) -> None:
        """Follow the record while it must be followed, until cancelled."""
        while True:
            if not self._is_unknown and self.why is None:
                self._wake.clear()
                await self._wake.wait()
            try:
                await self.look()
                await self._lift_what_is_left_behind()
            except MetadataError as exc:
                _log.warning("cannot tell whether the metadata are frozen: %s", exc)
            except Exception:
                _log.exception("whether the metadata are frozen could not be looked up; it is tried again")
            if self._is_unknown or self.why is not None:
                await self._clock.sleep(_LOOK_S)

    async def look(self) -> None:
        """Do as the record says. Raises MetadataError - it cannot be read, and all stays as it is."""
        async with self._turn:
            self._follow(await read_freeze(self._store))

    async def freeze(self, incarnation: "Incarnation") -> Mapping[str, Any]:
        """Freeze this hub; when this returns, nothing is under way and nothing begins, until the freeze is over.

        Raises: NotFrozenError - the record does not say so; MetadataError - it cannot be read; UncertainStateError -
            what became of a write is not known. May be cancelled. If it fails, the hub is not frozen.
        """
        async with self._turn:
            was_open = self.why is None
            if was_open and incarnation.why_over is None:
                # What is consumed so far is on record then, and need not come again.
                await incarnation.subscribing.pointers.flush()
            found = await read_freeze(self._store)
            if found is None or not found.forbids_writes:
                raise NotFrozenError(
                    f"{self._url} is not frozen, so this hub is not, either; hedwig-admin metadata migrate does both"
                )
            try:
                self._follow(found)
                await self._gate.settle()
            except BaseException:
                if was_open:
                    self._gate.open()
                raise
            self._wake.set()
            return self.state()

    async def thaw(self) -> Mapping[str, Any]:
        """Look at once whether the freeze is over. Raises StillFrozenError - it is not; MetadataError."""
        await self.look()
        if self.why is not None:
            raise StillFrozenError(
                f"{self.why}; to lift that for all hubs: hedwig-admin metadata thaw --metadata {self._url}"
            )
        return self.state()

    def state(self) -> Mapping[str, Any]:
        """Return what is to be shown of it."""
        seen = self._seen if self.why is not None else None
        return {
            "frozen": self.why is not None,
            "state": None if seen is None else seen.state.value,
            "target": None if seen is None else seen.target,
            "since_ms": None if seen is None else seen.wall_ms,
        }

    @property
    def _store(self) -> NamedRecords:
        assert self._metadata is not None, "it was attached"
        return self._metadata.named_records

    def _follow(self, found: Freeze | None) -> None:
        if found != self._seen:
            self._seen, self._seen_at = found, self._clock.monotonic()
        self._is_unknown = False
        was = self.why
        if found is None or not found.forbids_writes:
            self._gate.open()
            if was is not None:
                _log.warning("the metadata are not frozen any more")
            return
        self._gate.close(f"{found.what}; {_ADVICE[found.state]}")
        self._wake.set()
        if was != self.why:
            _log.warning("nothing is written: %s", self.why)

    async def _lift_what_is_left_behind(self) -> None:
        """Lift a freeze that nobody has seen to for as long as it grants, for this hub and all others."""
        async with self._turn:
            seen = self._seen
            if seen is None or seen.state is not FreezeState.FROZEN:
                return
            if self._clock.monotonic() - self._seen_at < seen.lease_s:
                return
            lifted = Freeze(
                state=FreezeState.LIFTED,
                migration=seen.migration,
                target=seen.target,
                lease_s=seen.lease_s,
                wall_ms=int(self._clock.wall() * 1000),
            )
            done = await replace_freeze(self._store, seen, lifted, self._random)
            if done is not None:
                _log.warning("nobody has seen to the freeze for %g s: it is lifted", seen.lease_s)
            self._follow(done if done is not None else await read_freeze(self._store))


_ADVICE: Final = {
    FreezeState.FROZEN: "try again soon",
    FreezeState.MOVED: "this hub has to be restarted with the option metadata set to that",
}
