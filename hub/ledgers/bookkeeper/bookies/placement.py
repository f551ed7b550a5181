"""Choose the bookies of a ledger: any that are registered, those that failed lately last."""

from collections.abc import Collection, Iterable, Mapping
from random import Random

__all__ = ["choose_ensemble", "choose_replacements"]


def choose_ensemble(
    writable: Collection[str], suspects: Collection[str], size: int, source: Random
) -> tuple[str, ...] | None:
    """Return `size` bookies in random order, without suspects if that is possible; None if there are too few."""
    chosen = _draw(writable, (), suspects, size, source)
    if len(chosen) < size:
        return None
    source.shuffle(chosen)
    return tuple(chosen)


def choose_replacements(
    writable: Collection[str],
    suspects: Collection[str],
    ensemble: tuple[str, ...],
    failed: Iterable[int],
    source: Random,
) -> Mapping[int, str]:
    """Return new bookies for the failed positions, or for some if there are too few. None is a suspect or in use.

    A failed bookie is in the ensemble, so it never replaces itself.
    """
    fit = [bookie for bookie in sorted(set(writable)) if bookie not in ensemble and bookie not in suspects]
    positions = sorted(failed)
    return dict(zip(positions, source.sample(fit, min(len(fit), len(positions))), strict=False))


def _draw(
    writable: Collection[str], taken: Collection[str], suspects: Collection[str], size: int, source: Random
) -> list[str]:
    # Sorted, so that only the seed decides.
    fit = sorted(set(writable) - set(taken))
    sound = [bookie for bookie in fit if bookie not in suspects]
    doubtful = [bookie for bookie in fit if bookie in suspects]
    chosen = source.sample(sound, min(size, len(sound)))
    return chosen + source.sample(doubtful, min(size - len(chosen), len(doubtful)))
