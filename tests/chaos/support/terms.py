"""At most one hub acknowledges publishes for a topic at a time: the check from ids, times and claims.

A term is the time for which a hub owns a topic, from its claim to the next claim of any hub. Claims are changes of one
record by compare-and-set. A claim over a version began after all claims before it took effect, since one of them, or a
release, left that version or the one that it replaced. A claim of a topic without an owner does not depend on them. It
may have waited in the network while others claimed and released, and took effect at any time until it was answered.

Ids of a topic go up from term to term. So each acknowledgement must have a term of its hub, whose claim had begun by
then. Terms must not go back as ids go up: a hub that acknowledges again after another one has claimed again.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from hedwig.client import HubAddress
from tests.faults.linearizability.support import versioned_register as cas
from tests.faults.linearizability.support.operations import Unanswered
from tests.faults.linearizability.support.ownership import Owner

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
    """A hub claimed a topic at `began` at the earliest. No claim that began after `until` came before it.

    For a claim over a version, `until` is `began`. For a claim of a topic without owner, it is the end of the claim.
    """

    topic: bytes
    hub: str
    began: float
    until: float


def terms_of(calls: Iterable[cas.CasOperation]) -> list[Term]:
    """Return the claims among recorded calls that took effect, or may have taken effect."""
    terms = []
    for call in calls:
        if isinstance(call.input, cas.Write) and (
            isinstance(call.output, cas.Written) or call.output is Unanswered.UNKNOWN
        ):
            owner, topic = call.input.value, call.key
            assert isinstance(owner, Owner)
            assert isinstance(topic, bytes)
            # Write the address as clients do, which leave out the TLS port where there is none.
            began = until = call.start * _NS
            if call.input.at is cas.NEW:
                until = math.inf if call.output is Unanswered.UNKNOWN else call.end * _NS
            terms.append(Term(topic, str(HubAddress.parse(owner.address)), began, until))
    return terms


def interleavings(acknowledgements: Iterable[Acknowledgement], terms: Iterable[Term]) -> list[str]:
    """Return where hubs acknowledged publishes of one topic at the same time, in words; empty if they never did."""
    given: defaultdict[bytes, list[Acknowledgement]] = defaultdict(list)
    for each in acknowledgements:
        given[each.topic].append(each)
    claimed: defaultdict[bytes, list[Term]] = defaultdict(list)
    for term in terms:
        claimed[term.topic].append(term)
    return [
        f"topic {topic.decode()}: {what}"
        for topic in sorted(given)
        for what in _interleavings(sorted(given[topic], key=lambda each: each.local), claimed[topic])
    ]


class _Way(NamedTuple):
    """One order of terms that explains all acknowledgements so far.

    `term` is the last of them, None before the first one. `past` are the others. `began` is the latest begin of all
    their claims.
    """

    term: int | None
    past: frozenset[int]
    began: float


def _interleavings(given: Sequence[Acknowledgement], terms: Sequence[Term]) -> Iterator[str]:
    ways = {_Way(None, frozenset(), -math.inf)}
    before: Acknowledgement | None = None
    for each in given:
        following = {further for way in ways for further in _further(way, each, terms)}
        if following:
            ways = following
        else:
            after = f" after {before.hub} acknowledged {before.local}" if before is not None else ""
            yield f"hub {each.hub} acknowledged {each.local}{after}, without a claim of its own in between"
        if before is not None and before.hub != each.hub and before.sent > each.ended:
            yield (
                f"hub {before.hub} acknowledged {before.local}, sent {before.sent - each.ended:.3f} s after hub "
                f"{each.hub} had acknowledged {each.local}"
            )
        before = each


def _further(way: _Way, given: Acknowledgement, terms: Sequence[Term]) -> Iterator[_Way]:
    """Yield the orders that can follow, with the acknowledgement `given`."""
    if way.term is not None and terms[way.term].hub == given.hub:
        # Orders that can follow on a further term of the same hub can also follow on this one.
        yield way
        return
    past = way.past if way.term is None else way.past | {way.term}
    for number, term in enumerate(terms):
        if number not in past and term.hub == given.hub and term.began <= given.ended and term.until >= way.began:
            yield _Way(number, past, max(way.began, term.began))
