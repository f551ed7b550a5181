"""Repeating a request until its outcome is known, or reporting that it is not.

A store over a network can fail in two ways: surely without effect, or with unknown effect. Reads are repeated after
either. A compare-and-set is repeated too, always as the same write with the same token. Once an attempt was lost, the
refusal of a later attempt proves nothing by itself. The lost one may have been applied, and even replaced since. So the
record decides: see `Verdict`.
"""

import enum
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from hedwig.clock import Deadline
from hedwig.errors import MetadataError, MetadataForbiddenError, MetadataUnavailableError, UncertainStateError
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.contract.write_lease import check_lease, within_lease
from hedwig.outcomes import AbortedError, ForbiddenError, NotAppliedError, OutcomeUnknownError

__all__ = ["Attempts", "ListingTime", "Refusal", "Verdict", "deadline_of_all"]

S = TypeVar("S")
T = TypeVar("T")

_BACKOFF_FIRST_S: Final = 0.01
_BACKOFF_MAX_S: Final = 1.0
_OPERATION_S: Final = 0.001
"""What each operation of a batch adds to its deadline."""
_LISTED_S: Final = 0.01
"""What each listed record adds to the time of its listing: a busy machine decodes some hundred records a second."""


class Verdict(enum.Enum):
    """What a record, read after a refusal, says about a write of which an earlier attempt was lost."""

    APPLIED = enum.auto()
    REFUSED = enum.auto()
    UNCERTAIN = enum.auto()


@dataclass(frozen=True, slots=True)
class Refusal(Generic[S]):
    """The store's clear refusal: the condition did not hold. `current` is the record it found (None: no record).

    `proven` means that no earlier attempt of the same write was applied either, so there is nothing to judge.
    """

    current: S | None
    proven: bool = False


class ListingTime:
    """How long the listing of one topic may still wait for the store, over all of its pages.

    It begins with the operation timeout. The time that a caller takes between two pages is not counted. Each received
    record adds ten milliseconds, so that a store which answers steadily can list a topic of any size.
    """

    def __init__(self, options: StoreOptions) -> None:
        self._clock = options.clock
        self._left_s = options.operation_timeout_s

    @contextmanager
    def waiting(self) -> Iterator[Deadline]:
        """Count the time of the body; yield the deadline by which the store must answer."""
        begun_at = self._clock.monotonic()
        try:
            yield Deadline.after(self._clock, max(0.0, self._left_s))
        finally:
            self._left_s -= self._clock.monotonic() - begun_at

    def add(self, records: int) -> None:
        """Add the time for N received records."""
        self._left_s += records * _LISTED_S


def deadline_of_all(options: StoreOptions, operations: int) -> Deadline:
    """Return the one deadline of N operations in a batch. Each adds a millisecond to the operation timeout."""
    return Deadline.after(options.clock, options.operation_timeout_s + operations * _OPERATION_S)


class Attempts:
    """The attempts of one operation, within its deadline. `what` names it in errors, and is formatted only for them."""

    def __init__(self, options: StoreOptions, what: object, deadline: Deadline | None = None) -> None:
        """Start a new deadline, or continue `deadline` if the operation is already running."""
        self._options = options
        self._what = what
        self._pause_s = _BACKOFF_FIRST_S
        self.deadline = deadline or Deadline.after(options.clock, options.operation_timeout_s)

    async def read(self, attempt: Callable[[Deadline], Awaitable[T]]) -> T:
        """Return the result of `attempt`, and repeat it while it fails for a passing reason.

        Raises: MetadataUnavailableError - the deadline passed first.
        """
        while True:
            try:
                return await attempt(self.deadline)
            except AbortedError as exc:
                raise self._not_done(exc) from exc
            except (NotAppliedError, OutcomeUnknownError) as exc:
                if not await self._pause():
                    raise MetadataUnavailableError(f"{self._what}: {self._gave_up(exc)}") from exc

    async def write(
        self,
        attempt: Callable[[Deadline], Awaitable[Refusal[S] | None]],
        judge: Callable[[S | None], Verdict],
    ) -> Refusal[S] | None:
        """Repeat one compare-and-set; return None if it was applied, or its Refusal if it surely was not.

        `attempt` sends the same write with the same token each time. It returns None once the store says it is done.
        `judge` reads the record of a refusal that follows a lost attempt.

        Raises: MetadataUnavailableError - surely not applied by the deadline; UncertainStateError - not known; any
            MetadataError that `attempt` raises, unless an earlier attempt was lost.
        """
        lost: OutcomeUnknownError | None = None
        failure: Exception
        while True:
            try:
                check_lease()
                refusal = await attempt(within_lease(self._options.clock, self.deadline))
                if refusal is None or lost is None or refusal.proven:
                    return refusal
                return self._settled(refusal, judge(refusal.current), lost)
            except MetadataError as exc:
                if lost is None or exc.happened != "no":
                    raise
                # The error says why this attempt had no effect. The lost attempt may have had its effect before.
                raise UncertainStateError(
                    f"{self._what}: an answer was lost ({lost}), and the next attempt was refused: {exc}; "
                    "read before deciding"
                ) from exc
            except AbortedError as exc:
                if exc.sent or lost is not None:
                    raise UncertainStateError(f"{self._what}: sent, but {exc}") from exc
                raise self._not_done(exc) from exc
            except OutcomeUnknownError as exc:
                lost = failure = exc
            except NotAppliedError as exc:
                failure = exc
            if not await self._pause():
                if lost is not None:
                    raise UncertainStateError(f"{self._what}: sent, but {self._gave_up(failure)}") from failure
                raise MetadataUnavailableError(f"{self._what}: not done; {self._gave_up(failure)}") from failure

    def _not_done(self, exc: AbortedError) -> MetadataUnavailableError:
        kind = MetadataForbiddenError if isinstance(exc, ForbiddenError) else MetadataUnavailableError
        return kind(f"{self._what}: not done; {exc}")

    def _settled(self, refusal: Refusal[S], verdict: Verdict, lost: OutcomeUnknownError) -> Refusal[S] | None:
        if verdict is Verdict.UNCERTAIN:
            raise UncertainStateError(
                f"{self._what}: an answer was lost ({lost}), and another client has written since; read before deciding"
            ) from lost
        return None if verdict is Verdict.APPLIED else refusal

    async def _pause(self) -> bool:
        """Wait before the next attempt; return False if the deadline leaves no room for one."""
        pause_s = self._pause_s * (0.5 + self._options.random.random())
        self._pause_s = min(2 * self._pause_s, _BACKOFF_MAX_S)
        if pause_s >= self.deadline.remaining_s():
            return False
        await self._options.clock.sleep(pause_s)
        return True

    def _gave_up(self, failure: Exception) -> str:
        return f"the store did not answer within {self._options.operation_timeout_s:g} s ({failure})"
