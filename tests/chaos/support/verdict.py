"""The checks of a whole run, and the evidence that a failed run leaves behind."""

import re
import shutil
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Final

from hedwig.metadata import open_metadata
from hedwig.metadata.bulk.subscriber_index import unindexed
from hedwig.metadata.contract.kinds import SUBSCRIPTIONS
from tests.chaos.support.history import ChaosHistory
from tests.chaos.support.hubs import Hubs
from tests.chaos.support.redirects import Glance, baseless_redirects, glances_of, long_chains
from tests.chaos.support.terms import Term, interleavings, terms_of
from tests.chaos.support.workload import REDIRECTS_MAX
from tests.faults.linearizability import check
from tests.faults.linearizability.support.ownership import Ownership, as_ownership
from tests.faults.linearizability.support.versioned_register import CasOperation, VersionedRegister
from tests.hub.support.delivery_history import Promise, violations

__all__ = ["breaches", "judge", "not_indexed"]

_PROMISE: Final = Promise(consume_interval=50, patience_s=1.0)
_SHOWN: Final = 20
_TOPIC: Final = re.compile(r"^topic (\S+):")


def breaches(
    history: ChaosHistory, terms: Iterable[Term], glances: Iterable[Glance], addresses: Iterable[str]
) -> list[str]:
    """Return what clients saw that the hubs at these addresses must not do, in words; empty without breaches."""
    starved_s = max((fault.starved_s for fault in history.faults), default=0.0)
    return [
        *violations(history, _PROMISE),
        *interleavings(history.acknowledgements(), terms),
        *baseless_redirects(history.attempts, glances, addresses, starved_s),
        *long_chains(history.attempts, REDIRECTS_MAX),
        *history.dropped,
    ]


async def not_indexed(url: str) -> list[str]:
    """Return in words the subscriptions of a store that its index of subscribers lacks."""
    async with await open_metadata(url) as store, aclosing(store.scan(kinds=(SUBSCRIPTIONS,))) as pages:
        lacking = [key async for page in pages for key in await unindexed(store, [record.key for record in page])]
    return [f"{key}: the index of subscribers lacks it" for key in lacking]


def judge(history: ChaosHistory, hubs: Hubs, seed: int, directory: Path, more: Sequence[str] = ()) -> None:
    """Require that nothing in a run contradicts the promises of hubs; `more` are breaches that were found already.

    Raises: AssertionError - the breaches, with the seed, the faults, and where the evidence is kept; also if the calls
        on owner records have no order that explains them.
    """
    calls = hubs.calls()
    glances = glances_of(calls, hubs.processes)
    findings = [*more, *breaches(history, terms_of(calls), glances, hubs.addresses)]
    if findings:
        evidence = _keep(history, hubs, seed, directory, findings)
        raise AssertionError("\n".join([f"{len(findings)} breaches:", *findings[:_SHOWN], evidence]))
    try:
        require_linearizable(calls)
    except AssertionError as exc:
        raise AssertionError(f"{exc}\n{_keep(history, hubs, seed, directory, [])}") from None


def require_linearizable(calls: Sequence[CasOperation]) -> None:
    """Require that the calls on owner records have an order. Raises NotLinearizableError, UndecidedError."""
    check(calls, VersionedRegister()).require()
    check(as_ownership(calls), Ownership()).require()


def _keep(history: ChaosHistory, hubs: Hubs, seed: int, directory: Path, findings: Sequence[str]) -> str:
    """Keep the evidence, and say where it is."""
    kept = directory / "evidence"
    kept.mkdir(exist_ok=True)
    origin = min((each.sent for each in history.publishes), default=0.0)
    faults = [each.line(origin) for each in history.faults]
    (kept / "faults.log").write_text("".join(f"{each}\n" for each in faults))
    (kept / "seed").write_text(f"{seed}\n")
    (kept / "breaches").write_text("".join(f"{each}\n" for each in findings))
    topics = dict.fromkeys(named[1].encode() for each in findings if (named := _TOPIC.match(each)))
    topics |= {name.encode(): None for fault in history.faults for name in (fault.slowest, *fault.late[:1]) if name}
    for topic in list(topics)[:_SHOWN]:
        history.write(kept / f"{topic.decode()}.history", [topic])
    for name, hub in hubs.hubs.items():
        (kept / f"{name}.log").write_text(hub.log)
    shutil.copytree(hubs.records, kept / "records", dirs_exist_ok=True)
    return "\n".join([f"seed {seed}; evidence (faults, logs of hubs, histories of topics): {kept}", *faults])
