"""Prove that sources have turns one after the other, and that an item comes once, however many wait for it."""

import pytest

from hedwig.concurrency.fair_turns import FairTurns


def _all(turns: FairTurns[str]) -> list[str]:
    """Take everything, in order."""
    return [turns.take() for _ in range(len(turns))]


def test_a_long_queue_delays_no_other_source() -> None:
    turns = FairTurns[str]()
    for number in range(1000):
        turns.add(f"a{number}", "a")
    turns.add("b0", "b")
    turns.add("b1", "b")
    turns.add("c0", "c")
    assert [turns.take() for _ in range(6)] == ["a0", "b0", "c0", "a1", "b1", "a2"]
    assert (len(turns), turns.waiting_for("a"), turns.waiting_for("b")) == (997, 997, 0)
    turns.add("b2", "b")
    assert [turns.take() for _ in range(3)] == ["a3", "b2", "a4"]


def test_an_item_that_several_wait_for_comes_at_the_first_turn_of_any() -> None:
    turns = FairTurns[str]()
    for number in range(10):
        turns.add(f"item {number}", "many")
    turns.add("item 7", "few")
    turns.add("item 7", "few")
    turns.add("its own", "few")
    assert turns.waiting_for("few") == 2
    assert _all(turns) == ["item 0", "item 7", "item 1", "its own", *(f"item {each}" for each in (2, 3, 4, 5, 6, 8, 9))]
    assert not turns
    assert turns.waiting_for("many") == turns.waiting_for("few") == 0
    with pytest.raises(KeyError):
        turns.take()
    turns.add("item 7", "few")
    assert _all(turns) == ["item 7"]
