"""What all sizes of a durability say together: how often each side was ahead, whichever size and round it was.

A single size has a round or two, of which an interval holds nearly everything; but who is ahead in each round of each
size is hardly so by chance. The test is that of signs: it asks for nothing but that rounds are as likely to fall to
one side as to the other if both are equally good, and does not care by how much.

By how much is told beside it: of rates as the geometric mean of all rounds; of percentiles, whose mean would be the
percentile of nothing, as the range of what they come to at the sizes, each by all times there together.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hedwig.benchmarks.load.workloads import FILL, RESTART
from hedwig.benchmarks.report.compare.figures import FAILED_MAX, SECONDS_MIN
from hedwig.benchmarks.report.findings.findings import OPERATIONS_MIN, Finding, Outcome
from hedwig.benchmarks.report.page import Table
from hedwig.benchmarks.runs.compare_rounds import middle
from hedwig.benchmarks.runs.processor_limits import LIMIT_UNKNOWN
from hedwig.benchmarks.runs.words import driver_title

__all__ = ["Pooled", "pooled", "pooled_leads", "pooled_table"]

_CHANCE_MAX: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooled:
    """One operation under one load at all sizes. `findings`: those with figures of both sides; `left_out`: the others.

    There is at least one with figures.
    """

    case: str
    sides: tuple[str, str]
    findings: tuple[Finding, ...]
    left_out: tuple[Finding, ...]

    @property
    def ratios(self) -> list[float]:
        """Return by what factor the second side was better in each round, those left out in which none was."""
        return [ratio for each in self.findings for ratio in each.ratios if ratio != 1]

    @property
    def place(self) -> int | None:
        """Return which of the sides was ahead in more rounds, None if neither was."""
        seconds = sum(ratio > 1 for ratio in self.ratios)
        firsts = len(self.ratios) - seconds
        return None if firsts == seconds else int(seconds > firsts)

    @property
    def ahead(self) -> str | None:
        """Return the side that was ahead in more rounds, however sure that is."""
        return None if self.place is None else self.sides[self.place]

    @property
    def won(self) -> int:
        """Return in how many rounds the side that is ahead in more of them was."""
        return max(sum(ratio > 1 for ratio in self.ratios), sum(ratio < 1 for ratio in self.ratios))

    @property
    def factors(self) -> list[float]:
        """Return by what factor that side was better in each round."""
        return self._of_ahead(self.ratios)

    @property
    def has_percentiles(self) -> bool:
        """Say whether percentiles were compared, be it at one size, so that there is no mean of the factors."""
        return any(each.is_percentile for each in self.findings)

    @property
    def of_sizes(self) -> list[float]:
        """Return by what factor that side was better at each size, as that size tells it."""
        return self._of_sizes(self.findings)

    def _of_ahead(self, ratios: Sequence[float]) -> list[float]:
        """Return factors of the second side as those of the side that is ahead."""
        return [ratio if self.place else 1 / ratio for ratio in ratios]

    @property
    def chance(self) -> float:
        """Return how probable it is that of equal sides one is ahead as often as this, or more often."""
        return _chance(self.ratios)

    @property
    def limits(self) -> list[tuple[Finding, str]]:
        """Return the sizes at which the side behind may have been held back by something else than its store."""
        if self.place is None or self.findings[0].workload.name == RESTART:
            return []
        limits = [(each, each.processors[1 - self.place].limit(each.cpus)) for each in self.findings]
        return [(each, why) for each, why in limits if why is not None]

    @property
    def is_one_figure_a_size(self) -> bool:
        """Say whether it is something that is done once at each size."""
        return self.findings[0].workload.name in (FILL, RESTART)

    @property
    def outcome(self) -> Outcome:
        """Return what is to be said of the side that is ahead, the gravest reason against a verdict first."""
        if min(sum(each.operations[place] for each in self.findings) for place in (0, 1)) < OPERATIONS_MIN:
            return Outcome.FEW
        if self.is_short:
            return Outcome.SHORT
        if self.is_one_figure_a_size:
            return Outcome.UNKNOWN
        if self.place is None or not self._is_beyond_chance(self.findings):
            return Outcome.SAME
        if not self._is_confirmed_by(self.findings):
            return Outcome.MIXED if self.has_percentiles else Outcome.SAME
        limited = [each for each, _ in self.limits]
        kept = [each for each in self.findings if each not in limited]
        if not self._is_beyond_chance(kept) or not self._is_confirmed_by(kept):
            return Outcome.UNCHECKED if {why for _, why in self.limits} == {LIMIT_UNKNOWN} else Outcome.LIMITED
        return Outcome.BETTER

    def _is_beyond_chance(self, found: Sequence[Finding]) -> bool:
        """Say whether that side is ahead in more rounds of some sizes than chance explains."""
        factors = self._of_rounds(found)
        return _are_mostly_above_1(factors) and _chance(factors) < _CHANCE_MAX

    def _is_confirmed_by(self, found: Sequence[Finding]) -> bool:
        """Say whether the factors that are told of some sizes are on that side: the mean of all rounds.

        Of percentiles there is none: those of more sizes than not, each of all times there together.
        """
        if self.has_percentiles:
            return _are_mostly_above_1(self._of_sizes(found))
        return middle(self._of_rounds(found)) > 1

    def _of_rounds(self, found: Sequence[Finding]) -> list[float]:
        return self._of_ahead([ratio for each in found for ratio in each.ratios])

    def _of_sizes(self, found: Sequence[Finding]) -> list[float]:
        return self._of_ahead([each.factor for each in found if each.factor is not None])

    @property
    def is_short(self) -> bool:
        """Say whether even all rounds of closed loops together are too short for a verdict."""
        return any(each.is_short for each in self.findings) and any(
            sum(each.shortest_s[place] * each.rounds[place] for each in self.findings) < SECONDS_MIN for place in (0, 1)
        )

    @property
    def is_same_at_all_sizes(self) -> bool:
        return bool(self.ratios) and self.won == len(self.ratios)


def pooled(found: Sequence[Finding]) -> list[Pooled]:
    """Return what all sizes say together of each case that both sides have at more than one of them."""
    together = []
    for case in dict.fromkeys(each.case for each in found):
        own = [each for each in found if (each.case, each.sides) == (case, found[0].sides)]
        sound = [each for each in own if each.ratios and not each.has_walls and max(each.failed) <= FAILED_MAX]
        if len(sound) > 1:
            rest = tuple(each for each in own if each not in sound)
            together.append(Pooled(case=case, sides=own[0].sides, findings=tuple(sound), left_out=rest))
    return together


def pooled_leads(found: Sequence[Pooled], words: str) -> list[str]:
    """Return in what each side was ahead over all sizes, beyond chance; then in what but for its rival's client."""
    told: list[str] = []
    if not found:
        return told
    for side in found[0].sides:
        chosen = [each for each in found if each.ahead == side]
        better = [_named(each) for each in chosen if each.outcome is Outcome.BETTER]
        told.append(
            f"Where {driver_title(side)} was ahead over all sizes ({words}), in more rounds than chance explains: "
            f"{'; '.join(better) or 'nowhere'}."
        )
        held = [_named(each) for each in chosen if each.outcome in (Outcome.LIMITED, Outcome.UNCHECKED)]
        if held:
            told.append(
                f"Where {driver_title(side)} was ahead as often, but its rival's client, or the machine, was or may "
                f"have been at its limit ({words}): {'; '.join(held)}."
            )
        once = [each for each in chosen if each.is_one_figure_a_size and each.is_same_at_all_sizes]
        if once:
            told.append(
                f"Where {driver_title(side)} was ahead at every size that both have, with one figure for each and so "
                f"without a spread ({words}): {'; '.join(map(_once, once))}."
            )
    return told


def pooled_table(title: str, found: Sequence[Pooled]) -> Table:
    """Return how often who was ahead over all sizes, line by line."""
    columns = ("measured", "compared by", "ahead", "in rounds", "chance", "factor", "sizes", "notes")
    return Table(title=title, columns=columns, lines=[_line(each) for each in found])


def _line(each: Pooled) -> list[str]:
    names = [finding.figures[0].name for finding in each.findings if finding.figures is not None]
    return [
        each.case,
        " or ".join(dict.fromkeys(names)),
        _ahead(each),
        f"{each.won} of {len(each.ratios)}",
        f"{each.chance:.2g}",
        _factor(each),
        f"{len(each.findings)}",
        "; ".join(_notes(each)),
    ]


def _ahead(each: Pooled) -> str:
    side = driver_title(each.ahead) if each.ahead is not None else "neither"
    if each.outcome is Outcome.BETTER:
        return side
    if each.outcome is Outcome.UNKNOWN:
        return f"{side}, one figure a size" if each.is_same_at_all_sizes else f"{Outcome.SAME.value}; {side}"
    return f"{each.outcome.value}; {side}"


def _factor(each: Pooled) -> str:
    if each.place is None:
        return "–"
    if each.has_percentiles:
        return _range_of_sizes(each)
    return f"mean {middle(each.factors):.2f} × (rounds {min(each.factors):.2f} – {max(each.factors):.2f})"


def _range_of_sizes(each: Pooled) -> str:
    return f"{min(each.of_sizes):.2f} to {max(each.of_sizes):.2f} × by size" if each.of_sizes else "–"


def _notes(each: Pooled) -> list[str]:
    notes = []
    for why in dict.fromkeys(why for _, why in each.limits):
        behind = driver_title(each.sides[1 - (each.place or 0)])
        notes.append(f"{behind}: {why} at {_sizes([finding for finding, reason in each.limits if reason == why])}")
    shortest_s = min(min(finding.shortest_s) for finding in each.findings)
    if any(finding.is_short for finding in each.findings):
        notes.append(f"the shortest round lasted {shortest_s:.2g} s")
    for finding in each.left_out:
        notes.append(f"without {_sizes([finding])}: {'a wall' if finding.has_walls else finding.outcome.value}")
    return notes


def _sizes(found: Sequence[Finding]) -> str:
    return ", ".join(f"{each.workload.topics:,} × {each.workload.subscribers:,}" for each in found)


def _named(each: Pooled) -> str:
    by = _range_of_sizes(each) if each.has_percentiles else f"{middle(each.factors):.2f} ×"
    return f"{each.case} ({each.won} of {len(each.ratios)} rounds, {by})"


def _once(each: Pooled) -> str:
    low, high = min(each.factors), max(each.factors)
    walls = [finding for finding in each.left_out if finding.has_walls]
    text = f"{each.case} ({len(each.findings)} sizes, {low:.2f} to {high:.2f} ×"
    return f"{text}; without {_sizes(walls)}, where there was a wall)" if walls else f"{text})"


def _are_mostly_above_1(factors: Sequence[float]) -> bool:
    return sum(factor > 1 for factor in factors) > sum(factor < 1 for factor in factors)


def _chance(ratios: Sequence[float]) -> float:
    """Return the probability of the sign test, two-sided."""
    rounds = [ratio for ratio in ratios if ratio != 1]
    won = max(sum(ratio > 1 for ratio in rounds), sum(ratio < 1 for ratio in rounds))
    beyond = sum(math.comb(len(rounds), count) for count in range(won, len(rounds) + 1))
    return min(1.0, math.ldexp(beyond, 1 - len(rounds)))
