"""Redirects have a reason: the check from the answers to clients, and from the hubs' reads of owner records.

A hub redirects to another hub for one of two reasons: a look at the owner record showed that hub as the owner, or it
showed no live owner, and the hub chose that one. A client that asks a hub first may be redirected from memory, for as
long as the hub remembers owners. A client that was sent to a hub must not be sent on by choice nor from memory, or two
hubs might send it to and fro. It may only be sent to the owner, unless the hub has just released the topic (or is
drained, which no hub is here).

The look behind a redirect is not known, so any possible look will do. It did not begin after the answer. No other look
at the same topic replaced it before the request was sent. It is not older than a look-up, and then memory, lasts. A
look-up lasts longer by as much as a hub waited for a processor.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hedwig.client import HubAddress
from tests.chaos.support.history import Attempt
from tests.faults.linearizability.support import versioned_register as cas
from tests.faults.linearizability.support.operations import UNKNOWN
from tests.faults.linearizability.support.ownership import Owner

__all__ = ["Glance", "baseless_redirects", "glances_of", "long_chains"]

_REDIRECTED: Final = "NOT_RESPONSIBLE_FOR_TOPIC"
_KEPT_S: Final = 10.0
"""How long a hub remembers owners (`cluster.owners_kept_s`), and leaves topics that it released to other hubs."""
_LOOKUP_S: Final = 20.0
"""The most that a look-up takes, also after its look: a request to ZooKeeper, of 10 s, by a hub that may be paused."""
_NS: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Glance:
    """A call of a hub on the owner record of a topic. `ended` is infinite if no end of it is known.

    `is_shown`: whether it showed the record, with `owner`, or None without one. The owner surely lived until `lived`.
    `is_release`: whether the call was to delete the record.
    """

    topic: bytes
    hub: str
    began: float
    ended: float
    is_shown: bool = False
    owner: str | None = None
    lived: float = -math.inf
    is_release: bool = False


def glances_of(calls: Iterable[cas.CasOperation], hubs: Mapping[str, str]) -> list[Glance]:
    """Return recorded calls as glances of hubs. `hubs` has the hub address of each process."""
    calls = list(calls)
    # A hub begins no claim under a registration that is over, but a claim that it has begun takes a while.
    lived: defaultdict[Hashable, float] = defaultdict(lambda: -math.inf)
    for call in calls:
        if isinstance(call.input, cas.Write):
            lived[call.input.value] = max(lived[call.input.value], call.start * _NS - _LOOKUP_S)
    glances = []
    for call in calls:
        record: cas.Record | None = None
        is_shown = True
        match call.output:
            case cas.Returned(record) | cas.Exists(record) | cas.Stale(record):
                pass
            case _:
                is_shown = False
        assert isinstance(call.key, bytes)
        glances.append(
            Glance(
                call.key,
                _spelt(hubs[call.process]),
                call.start * _NS,
                math.inf if call.output is UNKNOWN else call.end * _NS,
                is_shown,
                None if record is None else _address(record.value),
                -math.inf if record is None else lived[record.value],
                isinstance(call.input, cas.Delete),
            )
        )
    return glances


def baseless_redirects(
    attempts: Iterable[Attempt], glances: Iterable[Glance], hubs: Iterable[str], starved_s: float = 0.0
) -> list[str]:
    """Return the redirects that no correct hub can have given, in words; `hubs` are the addresses of all hubs.

    `starved_s` is the longest that one of them waited for a processor.
    """
    lookup_s = _LOOKUP_S + starved_s
    seen: defaultdict[tuple[bytes, str], list[Glance]] = defaultdict(list)
    for glance in glances:
        seen[glance.topic, glance.hub].append(glance)
    known = {_spelt(each) for each in hubs}
    return [
        f"topic {attempt.topic.decode()}: hub {attempt.hub} redirected {_whom(attempt)} to {attempt.text}, {why}"
        for attempt in attempts
        if attempt.came == _REDIRECTED
        and attempt.text
        and (why := _what_is_wrong(attempt, seen[attempt.topic, attempt.hub], known, lookup_s))
    ]


def long_chains(attempts: Iterable[Attempt], redirects_max: int) -> list[str]:
    """Return the requests that our client sent to more hubs, one after the other, than it may, in words."""
    chains: defaultdict[int, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        chains[attempt.request].append(attempt)
    return [
        f"topic {chain[0].topic.decode()}: one request went {' -> '.join(each.hub for each in chain)}, "
        f"with {redirects_max} redirects allowed"
        for chain in chains.values()
        if len(chain) > redirects_max + 1
    ]


def _whom(attempt: Attempt) -> str:
    return f"a client that {'was sent' if attempt.should_claim else 'came'} to it"


def _what_is_wrong(attempt: Attempt, glances: Sequence[Glance], known: set[str], lookup_s: float) -> str:
    """Return what is wrong with a redirect; an empty text if it can be right."""
    to = _spelt(attempt.text)
    if to == attempt.hub:
        return "which is itself"
    if to not in known:
        return "which is no hub"
    if not any(_explains(glance, attempt, to, glances, lookup_s) for glance in _possible(attempt, glances)):
        return "which it had not seen as the owner, and was not free to choose"
    return ""


def _possible(attempt: Attempt, glances: Sequence[Glance]) -> Iterator[Glance]:
    """Yield the looks that the answer may be based on."""
    for glance in glances:
        if glance.is_shown and glance.began <= attempt.ended:
            # Each look at a topic replaces what the hub knew of it before.
            later = (each for each in glances if glance.ended <= each.began and each is not glance)
            if not any(each.ended <= attempt.sent for each in later):
                yield glance


def _explains(glance: Glance, attempt: Attempt, to: str, glances: Sequence[Glance], lookup_s: float) -> bool:
    age_s = attempt.sent - glance.ended
    if glance.owner == to:
        return age_s <= (lookup_s if attempt.should_claim else lookup_s + _KEPT_S)
    # There was no owner, or one that may have been dead: the hub chose the other one.
    may_choose = not attempt.should_claim or _had_given_up(glance, glances, lookup_s)
    return age_s <= lookup_s and glance.lived <= attempt.ended and may_choose


def _had_given_up(glance: Glance, glances: Sequence[Glance], lookup_s: float) -> bool:
    """Say whether the hub may still have left the topic to others when it looked."""
    return any(each.is_release and 0 <= glance.began - each.began <= _KEPT_S + lookup_s for each in glances)


def _address(owner: Hashable) -> str:
    assert isinstance(owner, Owner)
    return _spelt(owner.address)


def _spelt(address: str) -> str:
    """Return an address as clients write it, which leave out the TLS port where there is none."""
    return str(HubAddress.parse(address))
