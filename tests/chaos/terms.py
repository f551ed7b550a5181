"""At most one hub acknowledges publishes for a topic at a time: the judgement from ids, times and claims.

A term is what a hub owns a topic for, from one claim to the next one of anybody. Claims are changes of one record by
compare-and-set, so terms have an order: a claim over a version begins after that version was made. Ids of a topic go up
from term to term. So each acknowledgement must have a term of the hub that gave it, whose claim had begun by then, and
terms must not go back as ids go up: a hub that acknowledges again after another has done so has claimed again.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from hedwig.client import HubAddress
from tests.faults.linearizability import versioned_register as cas
from tests.faults.linearizability.operations import Unanswered
from tests.faults.linearizability.ownership import Owner

__all__ = ["Acknowledgement", "Term", "interleavings", "terms_of"]

_NS: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A hub acknowledged a publish, sent at `sent` and answered by `ended`, under the id `local`."""

    topic: bytes
    hub: str
    local: int
    sent: float
    ended: float


@dataclass(frozen=True, slots=True)
class Term:
    """A hub claimed a topic at `began` at the earliest."""

    topic: bytes
    hub: str
    began: float


def terms_of(calls: Iterable[cas.CasOperation]) -> list[Term]:
    """Return the claims among recorded calls that took effect, or may have."""
    terms = []
    for call in calls:
        if isinstance(call.input, cas.Write) and (
            isinstance(call.output, cas.Written) or call.output is Unanswered.UNKNOWN
        ):
            owner, topic = call.input.value, call.key
            assert isinstance(owner, Owner)
            assert isinstance(topic, bytes)
            # As clients spell it, which know of no TLS port where there is none.
            terms.append(Term(topic, str(HubAddress.parse(owner.address)), call.start * _NS))
    return terms


def interleavings(acknowledgements: Iterable[Acknowledgement], terms: Iterable[Term]) -> list[str]:
    """Return where hubs acknowledged publishes of one topic at the same time, in words; empty if all is well."""
    given: defaultdict[bytes, list[Acknowledgement]] = defaultdict(list)
    for each in acknowledgements:
        given[each.topic].append(each)
    claimed: defaultdict[bytes, list[Term]] = defaultdict(list)
    for term in terms:
        claimed[term.topic].append(term)
    return [
        f"topic {topic.decode()}: {what}"
        for topic in sorted(given)
        for what in _interleavings(
            sorted(given[topic], key=lambda each: each.local), sorted(claimed[topic], key=lambda each: each.began)
        )
    ]


def _interleavings(given: Sequence[Acknowledgement], terms: Sequence[Term]) -> Iterator[str]:
    now = 0
    before: Acknowledgement | None = None
    for each in given:
        # The earliest term that will do leaves the most to those that follow.
        found = next(
            (
                number
                for number, term in enumerate(terms[now:], now)
                if term.hub == each.hub and term.began <= each.ended
            ),
            None,
        )
        if found is None:
            after = f" after {before.hub} acknowledged {before.local}" if before is not None else ""
            yield f"hub {each.hub} acknowledged {each.local}{after}, without a claim of its own in between"
        else:
            now = found
        if before is not None and before.hub != each.hub and before.sent > each.ended:
            yield (
                f"hub {before.hub} acknowledged {before.local}, sent {before.sent - each.ended:.3f} s after hub "
                f"{each.hub} had acknowledged {each.local}"
            )
        before = each
