"""Stamps never repeat, and decide the outcome of a write whose answer was lost."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedwig.clock import SystemClock
from hedwig.metadata.calls.attempts import Verdict
from hedwig.metadata.records.stamps import STAMP_BYTES, Stamp, judge, make_token

CLOCK = SystemClock()
RANDOM = Random(20260101)


def token() -> bytes:
    return make_token(RANDOM)


def history(length: int) -> list[Stamp]:
    stamps = [Stamp.first(CLOCK, token())]
    while len(stamps) < length:
        stamps.append(stamps[-1].next(token(), live=len(stamps) % 3 != 2))
    return stamps


def test_the_number_grows_by_one_per_write_and_the_token_of_the_write_before_is_carried() -> None:
    before = Stamp.first(CLOCK, token())
    deleted = before.next(token(), live=False)
    again = deleted.next(token())
    assert [stamp.number - before.number for stamp in (before, deleted, again)] == [0, 1, 2]
    assert (deleted.previous, again.previous) == (before.token, deleted.token)
    assert [stamp.live for stamp in (before, deleted, again)] == [True, False, True]
    assert [stamp.is_first for stamp in (before, deleted, again)] == [True, False, False]


@given(st.integers(0, 2**64 - 1), st.binary(min_size=8, max_size=8), st.booleans())
def test_bytes_round_trip(number: int, previous: bytes, live: bool) -> None:
    stamp = Stamp(number, b"12345678", previous, live)
    raw = stamp.encode()
    assert len(raw) == STAMP_BYTES
    assert Stamp.decode(raw) == stamp


@pytest.mark.parametrize("raw", [b"", b"L", b"X" + bytes(24), bytes(25), b"L" + bytes(25)])
def test_other_bytes_are_no_stamp(raw: bytes) -> None:
    with pytest.raises(ValueError, match="stamp"):
        Stamp.decode(raw)


def test_a_write_is_recognised_while_it_is_the_last_or_the_one_before() -> None:
    mine, overtaken, twice = history(3)
    assert judge(mine, mine) is Verdict.APPLIED
    assert judge(mine, overtaken) is Verdict.APPLIED
    assert judge(mine, twice) is Verdict.UNCERTAIN


def test_another_write_in_the_place_of_mine_proves_the_refusal() -> None:
    before = Stamp.first(CLOCK, token())
    mine, other = before.next(token()), before.next(token())
    assert judge(mine, other) is Verdict.REFUSED
    assert judge(mine, before) is Verdict.REFUSED
    assert judge(mine, None) is Verdict.REFUSED
    # Later writes could follow mine as well as the other one.
    assert judge(mine, other.next(token()).next(token())) is Verdict.UNCERTAIN


def test_another_first_write_proves_that_mine_did_not_create_the_record() -> None:
    mine, other = Stamp.first(CLOCK, token()), Stamp(2**63, token())
    assert other.number > mine.number
    assert judge(mine, other) is Verdict.REFUSED
    assert judge(mine, other.next(token())) is Verdict.UNCERTAIN


def test_a_record_older_than_my_first_write_was_not_made_by_it() -> None:
    old = Stamp(1000, token()).next(token(), live=False)
    assert judge(Stamp.first(CLOCK, token()), old) is Verdict.REFUSED


@given(st.data())
def test_no_verdict_contradicts_what_happened(data: st.DataObject) -> None:
    """Whatever was written after the lost attempt, a verdict other than UNCERTAIN is true."""
    before = Stamp.first(CLOCK, token())
    mine = before.next(token())
    applied = data.draw(st.booleans())
    current = mine if applied else before
    for _ in range(data.draw(st.integers(0, 4))):
        current = current.next(token(), live=data.draw(st.booleans()))
    truth = Verdict.APPLIED if applied else Verdict.REFUSED
    assert judge(mine, current) in (truth, Verdict.UNCERTAIN)


def test_tokens_are_never_the_one_that_means_no_write_before() -> None:
    class Lowest(Random):
        def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
            return start

    assert make_token(Lowest()) != bytes(8)
