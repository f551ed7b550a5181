"""Write sets rotate over the ensemble. Coverage and absence prove exactly what acknowledging needs."""

from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedwig.errors import ConfigurationError
from hedwig.hub.ledgers.bookkeeper.bookies.placement import choose_ensemble, choose_replacements
from hedwig.hub.ledgers.bookkeeper.wire.quorums import Coverage, Quorums

ALL = [
    Quorums(ensemble=ensemble, write=write, ack=ack)
    for ensemble in range(1, 7)
    for write in range(1, ensemble + 1)
    for ack in range(1, write + 1)
]
names = st.sets(st.sampled_from([f"bookie-{number}:3181" for number in range(9)]))


@pytest.mark.parametrize(("ensemble", "write", "ack"), [(2, 3, 1), (3, 2, 3), (3, 2, 0), (0, 0, 0)])
def test_quorums_that_cannot_be(ensemble: int, write: int, ack: int) -> None:
    with pytest.raises(ConfigurationError):
        Quorums(ensemble=ensemble, write=write, ack=ack)


def test_the_write_sets_of_three_of_five() -> None:
    quorums = Quorums(ensemble=5, write=3, ack=2)
    assert [quorums.write_set(entry) for entry in (0, 1, 3, 4, 5)] == [
        (0, 1, 2), (1, 2, 3), (3, 4, 0), (4, 0, 1), (0, 1, 2),
    ]  # fmt: skip


@given(st.sampled_from(ALL), st.integers(0, 1 << 62))
def test_holds_agrees_with_the_write_set(quorums: Quorums, entry_id: int) -> None:
    write_set = quorums.write_set(entry_id)
    assert len(set(write_set)) == quorums.write
    assert {position for position in range(quorums.ensemble) if quorums.holds(position, entry_id)} == set(write_set)


@pytest.mark.parametrize("quorums", ALL, ids=str)
def test_coverage_means_that_nothing_can_be_acknowledged_behind_our_back(quorums: Quorums) -> None:
    """Coverage means: no entry can get an ack quorum among the bookies that did not answer."""
    for size in range(quorums.ensemble + 1):
        for answered in combinations(range(quorums.ensemble), size):
            coverage = Coverage(quorums)
            for position in answered:
                coverage.add(position)
            silent = set(range(quorums.ensemble)) - set(answered)
            can_go_on = any(
                set(quorum) <= silent
                for entry in range(quorums.ensemble)
                for quorum in combinations(quorums.write_set(entry), quorums.ack)
            )
            assert coverage.is_complete is not can_go_on


@pytest.mark.parametrize("quorums", ALL, ids=str)
def test_absence_is_proved_when_no_ack_quorum_can_have_the_entry(quorums: Quorums) -> None:
    for absent in range(quorums.write + 1):
        assert quorums.proves_absence(absent) is (quorums.write - absent < quorums.ack)


@given(names, names, st.integers(1, 5), st.integers())
def test_ensembles_are_distinct_and_take_suspects_last(
    writable: set[str], suspects: set[str], size: int, seed: int
) -> None:
    ensemble = choose_ensemble(writable, suspects, size, Random(seed))
    if len(writable) < size:
        assert ensemble is None
        return
    assert ensemble is not None
    assert len(set(ensemble)) == size
    assert set(ensemble) <= writable
    assert len(suspects & set(ensemble)) == max(0, size - len(writable - suspects))
    assert choose_ensemble(sorted(writable, reverse=True), suspects, size, Random(seed)) == ensemble


def test_every_bookie_gets_every_position() -> None:
    source = Random(1)
    seen = {choose_ensemble({"a", "b", "c", "d"}, (), 2, source) for _ in range(400)}
    assert len(seen) == 12


@given(names, names, st.data())
def test_replacements_are_new_and_sound(writable: set[str], suspects: set[str], data: st.DataObject) -> None:
    ensemble = tuple(sorted(data.draw(names.filter(bool))))
    failed = data.draw(st.sets(st.integers(0, len(ensemble) - 1)))
    replacements = choose_replacements(writable, suspects, ensemble, failed, Random(data.draw(st.integers())))
    fit = writable - suspects - set(ensemble)
    assert set(replacements) <= failed
    assert len(replacements) == min(len(failed), len(fit))
    assert set(replacements.values()) <= fit
    assert len(set(replacements.values())) == len(replacements)
