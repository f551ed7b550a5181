"""A hub while the metadata store is frozen: none of its writes is under way, and none begins.

A migration freezes a store by writing a record into it (metadata/freezing.py). Then it asks each hub to freeze. A
frozen hub refuses publishes, subscriptions and claims. It keeps its topics, and deliveries go on. Consume pointers stay
in memory until the freeze is over. A hub obeys the record alone: it thaws once the record says so. If nobody renews the
record for its lease time, the hub lifts the freeze for all hubs.
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
"""A frozen hub checks every N seconds whether the freeze is over."""


class NotFrozenError(HedwigError):
    """A hub was asked to freeze, but the store is not frozen."""


class StillFrozenError(HedwigError):
    """A hub was asked to thaw, but the store is still frozen."""


class Freezing:
    """Freezes and thaws one hub with the store that it uses. The hub runs `run` for as long as it lives."""

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
        """Whether the hub must read the record before it may write."""

    @property
    def why(self) -> str | None:
        """Why the hub may not write; None if it may."""
        return self._gate.why_closed

    @property
    def is_writing(self) -> bool:
        """Whether a write is under way."""
        return self._gate.running > 0

    def attach(self, metadata: MetadataStore) -> None:
        """Set the store. Call this before anything else."""
        self._metadata = metadata

    async def check_usable(self) -> None:
        """Raise ConfigurationError if no hub may start on this store: it was moved, or a migration is filling it."""
        assert self._metadata is not None, "it was attached"
        state = await read_state(self._metadata)
        if (
            state is not None
            and state.phase is not Phase.DONE
            and await anext(self._metadata.topics(), None) is not None
        ):
            raise ConfigurationError(
                f"{self._url} has an unfinished migration from {state.source}, so no hub may start on it. Repeat "
                "hedwig-admin metadata migrate. To delete all of it: hedwig-admin metadata format --wipe --metadata "
                f"{self._url}"
            )
        freeze = await read_freeze(self._store)
        if freeze is not None and freeze.state is FreezeState.MOVED:
            raise ConfigurationError(
                f"{freeze.what}, so no hub may start on {self._url}. Set the option metadata to {freeze.target}. To go "
                f"back to what this store held then: hedwig-admin metadata thaw --metadata {self._url}"
            )

    def registered(self) -> None:
        """Hold all writes under a new registration until the hub has read the record.

        A migration that froze the store may have listed the hubs while this one was not registered.
        """
        self._is_unknown = True
        self._gate.hold()
        self._wake.set()

    async def run(self) -> None:
        """Follow the record while the store is frozen or may be, until cancelled."""
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
                _log.exception("cannot tell whether the metadata are frozen; the hub tries again")
            if self._is_unknown or self.why is not None:
                await self._clock.sleep(_LOOK_S)

    async def look(self) -> None:
        """Read the record and obey it. Raises: MetadataError - it cannot be read, and nothing changes."""
        async with self._turn:
            self._follow(await read_freeze(self._store))

    async def freeze(self, incarnation: "Incarnation") -> Mapping[str, Any]:
        """Freeze this hub. From its return until the end of the freeze, no write is under way and none begins.

        May be cancelled. If it fails, the hub is not frozen.

        Raises: NotFrozenError - the record does not forbid writes; MetadataError - the record cannot be read;
            UncertainStateError - the outcome of a write is unknown.
        """
        async with self._turn:
            was_open = self.why is None
            if was_open and incarnation.why_over is None:
                # Store the consume pointers first, so that consumed messages are not delivered again.
                await incarnation.subscribing.pointers.flush()
            record = await read_freeze(self._store)
            if record is None or not record.forbids_writes:
                raise NotFrozenError(
                    f"{self._url} is not frozen, so the hub is not either; hedwig-admin metadata migrate freezes both"
                )
            try:
                self._follow(record)
                await self._gate.settle()
            except BaseException:
                if was_open:
                    self._gate.open()
                raise
            self._wake.set()
            return self.state()

    async def thaw(self) -> Mapping[str, Any]:
        """Check at once whether the freeze is over. Raises: StillFrozenError - it is not; MetadataError."""
        await self.look()
        if self.why is not None:
            raise StillFrozenError(
                f"{self.why}; to lift that for all hubs: hedwig-admin metadata thaw --metadata {self._url}"
            )
        return self.state()

    def state(self) -> Mapping[str, Any]:
        """Return the state of the freeze, for the admin endpoint."""
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

    def _follow(self, freeze: Freeze | None) -> None:
        if freeze != self._seen:
            self._seen, self._seen_at = freeze, self._clock.monotonic()
        self._is_unknown = False
        was = self.why
        if freeze is None or not freeze.forbids_writes:
            self._gate.open()
            if was is not None:
                _log.warning("the metadata are not frozen any more")
            return
        self._gate.close(f"{freeze.what}; {_ADVICE[freeze.state]}")
        self._wake.set()
        if was != self.why:
            _log.warning("nothing is written: %s", self.why)

    async def _lift_what_is_left_behind(self) -> None:
        """Lift a freeze for all hubs if its record has not changed for its lease time."""
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
                _log.warning("no migration has renewed the freeze for %g s: the hub lifts it", seen.lease_s)
            self._follow(done if done is not None else await read_freeze(self._store))


_ADVICE: Final = {
    FreezeState.FROZEN: "try again soon",
    FreezeState.MOVED: "restart this hub with the option metadata set to that",
}
