"""Prove that a compare-and-set ends with a known outcome, or with an error that reports the outcome as unknown."""

from collections.abc import Awaitable, Callable
from random import Random

import pytest

from hedwig.clock import Deadline
from hedwig.errors import CorruptRecordError, MetadataError, MetadataUnavailableError, UncertainStateError
from hedwig.metadata.calls.attempts import Attempts, Refusal, Verdict
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.outcomes import NotAppliedError, OutcomeUnknownError


class FakeClock:
    """A clock that moves only by sleeping."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


Answer = Refusal[str] | None | Exception


def scripted(answers: list[Answer]) -> Callable[[Deadline], Awaitable[Refusal[str] | None]]:
    """Return an attempt that gives these answers one after another, and repeats the last one."""

    async def attempt(_: Deadline) -> Refusal[str] | None:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    return attempt


def attempts(clock: FakeClock | None = None) -> Attempts:
    options = StoreOptions(clock=clock or FakeClock(), random=Random(1), operation_timeout_s=30.0)
    return Attempts(options, "write something")


def unasked(_: str | None) -> Verdict:
    raise AssertionError("nothing was lost, so there is nothing to judge")


NOT_APPLIED = NotAppliedError("not connected")
LOST = OutcomeUnknownError("connection reset")
NO = Refusal("theirs")


@pytest.mark.parametrize("answers", [[None], [NOT_APPLIED, None], [LOST, None], [LOST, NOT_APPLIED, LOST, None]])
async def test_applied_is_applied_however_many_attempts_it_takes(answers: list[Answer]) -> None:
    assert await attempts().write(scripted(answers), unasked) is None


@pytest.mark.parametrize("answers", [[NO], [NOT_APPLIED, NO]])
async def test_a_refusal_is_final_if_no_attempt_was_lost(answers: list[Answer]) -> None:
    assert await attempts().write(scripted(answers), unasked) == NO


@pytest.mark.parametrize(("verdict", "outcome"), [(Verdict.APPLIED, None), (Verdict.REFUSED, NO)])
async def test_after_a_lost_attempt_the_record_decides(verdict: Verdict, outcome: Refusal[str] | None) -> None:
    seen = []

    def judge(current: str | None) -> Verdict:
        seen.append(current)
        return verdict

    assert await attempts().write(scripted([LOST, NOT_APPLIED, NO]), judge) == outcome
    assert seen == ["theirs"]


async def test_what_the_record_cannot_decide_is_uncertain() -> None:
    with pytest.raises(UncertainStateError, match="connection reset"):
        await attempts().write(scripted([LOST, NO]), lambda _: Verdict.UNCERTAIN)


async def test_an_error_of_the_store_is_passed_on_as_it_is_if_no_attempt_was_lost() -> None:
    refused = MetadataError("read only")
    with pytest.raises(MetadataError) as caught:
        await attempts().write(scripted([NOT_APPLIED, refused]), unasked)
    assert caught.value is refused


async def test_an_error_of_the_store_after_a_lost_attempt_is_uncertain() -> None:
    with pytest.raises(UncertainStateError, match=r"connection reset.*read only"):
        await attempts().write(scripted([LOST, NOT_APPLIED, MetadataError("read only")]), unasked)


async def test_a_record_that_cannot_be_judged_after_a_lost_attempt_is_uncertain() -> None:
    def judge(_: str | None) -> Verdict:
        raise CorruptRecordError("no stamp")

    with pytest.raises(UncertainStateError, match="no stamp"):
        await attempts().write(scripted([LOST, NO]), judge)


async def test_a_proven_refusal_needs_no_judgement() -> None:
    proven = Refusal("theirs", proven=True)
    assert await attempts().write(scripted([LOST, proven]), unasked) == proven


async def test_a_store_that_stays_away_leaves_a_write_surely_undone_only_if_no_attempt_was_lost() -> None:
    with pytest.raises(MetadataUnavailableError) as undone:
        await attempts().write(scripted([NOT_APPLIED]), unasked)
    assert undone.value.happened == "no"
    with pytest.raises(UncertainStateError) as uncertain:
        await attempts().write(scripted([NOT_APPLIED, LOST, NOT_APPLIED]), unasked)
    assert uncertain.value.happened == "unknown"


async def test_attempts_end_by_the_deadline_and_leave_pauses_between() -> None:
    clock = FakeClock()
    tried: list[float] = []

    async def attempt(deadline: Deadline) -> Refusal[str] | None:
        assert not deadline.expired
        tried.append(clock.now)
        raise NOT_APPLIED

    with pytest.raises(MetadataUnavailableError, match="write something"):
        await attempts(clock).write(attempt, unasked)
    assert 20 < clock.now <= 30
    assert 10 < len(tried) < 100, "pauses grow, and stay below what lets a store recover unnoticed"


async def test_reads_are_repeated_after_either_failure() -> None:
    answers: list[Exception] = [LOST, NOT_APPLIED]

    async def attempt(_: Deadline) -> str:
        if answers:
            raise answers.pop()
        return "value"

    assert await attempts().read(attempt) == "value"


async def test_a_read_that_gets_no_answer_is_unavailable_never_uncertain() -> None:
    async def attempt(_: Deadline) -> str:
        raise LOST

    with pytest.raises(MetadataUnavailableError) as caught:
        await attempts().read(attempt)
    assert caught.value.happened == "no"
