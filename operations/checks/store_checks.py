"""Checks of a metadata store: it answers, its layout is known, and compare-and-set works."""

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from hedwig.errors import ConfigurationError, HedwigError, LayoutError
from hedwig.metadata import Layout, MetadataStore, Outcome, Read, RecordKey, StandaloneHub, open_metadata, read_layout
from hedwig.metadata.contract.layout import FORMAT_MINOR
from hedwig.metadata.freezing import FreezeState, read_freeze
from hedwig.model import SubscriberId
from hedwig.names import as_topic
from hedwig.operations.checks.verdicts import CheckResult, CheckStatus
from hedwig.operations.deployment.deployment import Deployment, without_making
from hedwig.operations.deployment.store import describe_freeze
from hedwig.operations.errors import explain

__all__ = ["StoreHub", "check_store"]

_RECORD: Final = "health-check"
_KEYS: Final = 512
"""The number of keys to look up in each table. Fewer keys might miss one of 16 or 32 HBase regions."""
_TRIES: Final = 5
"""How many times other checks may write first before this one gives up."""
_SLOW_MS: Final = 1000.0
"""A slower compare-and-set works, but each claim of a topic waits for one."""
_SLOW_TO_ANSWER_MS: Final = 5000.0
"""A healthy store gives its first answer within this time, connecting included."""


@dataclass(frozen=True, slots=True)
class StoreHub:
    """The standalone hub registered in a store, and the reason why it cannot start there, if there is one."""

    hub: StandaloneHub
    hindrance: str | None


async def check_store(deployment: Deployment, note: Callable[[CheckResult], None]) -> StoreHub | None:
    """Check the chosen store, and `note` each finding; return the standalone hub registered in it, if any.

    A store that fails is a finding, no error. Raises: OperationError - the command line or the contexts make no sense.
    """
    url = without_making(deployment.url_to_show)
    store = await _open(deployment, url, note)
    if store is None:
        return None
    async with store:
        await _check_cas(store, url, note)
        await _check_tables(store, url, note)
        hindrance = await _check_freeze(deployment, store, url, note)
        try:
            hub = await store.standalone_hub()
        except HedwigError as exc:
            note(CheckResult("standalone hub", _verdict_on(exc), explain(exc, url)))
            return None
        return None if hub is None else StoreHub(hub, hindrance)


async def _open(deployment: Deployment, url: str, note: Callable[[CheckResult], None]) -> MetadataStore | None:
    began = time.monotonic()
    try:
        layout = await read_layout(url, deployment.options_to_look())
    except HedwigError as exc:
        note(CheckResult("store", _verdict_on(exc), explain(exc, deployment.url_to_show)))
        return None
    ms = (time.monotonic() - began) * 1000
    if layout is None and deployment.is_embedded:
        note(
            CheckResult(
                "store", CheckStatus.SKIP, f"nothing is at {deployment.url_to_show} yet: its first user makes it", ms
            )
        )
        return None
    is_slow = ms > _SLOW_TO_ANSWER_MS
    more = f": slower than {_SLOW_TO_ANSWER_MS:.0f} ms, so something slows it down" if is_slow else ""
    verdict = CheckStatus.WARN if is_slow else CheckStatus.PASS
    answers = CheckResult("store", verdict, f"{deployment.url_to_show} answers, in {ms:.0f} ms{more}", ms)
    try:
        store = await open_metadata(url, deployment.options_to_look())
    except LayoutError as exc:
        note(answers)
        note(CheckResult("layout", CheckStatus.FAIL, explain(exc, url).replace(url, deployment.url_to_show)))
        return None
    except HedwigError as exc:  # The store is there, but cannot be used: another process may hold it.
        note(CheckResult("store", _verdict_on(exc), explain(exc, url).replace(url, deployment.url_to_show)))
        return None
    note(answers)
    if layout is not None:  # A store in memory has no layout before it is opened.
        note(_layout_finding(layout))
    return store


def _layout_finding(layout: Layout) -> CheckResult:
    said = f"{layout.kind}, format {layout.major}.{layout.minor}"
    if layout.minor > FORMAT_MINOR:
        newer = f"{said}; a later release laid it out than this one, which knows {layout.major}.{FORMAT_MINOR}"
        return CheckResult("layout", CheckStatus.WARN, newer)
    return CheckResult("layout", CheckStatus.PASS, said)


async def _check_cas(store: MetadataStore, url: str, note: Callable[[CheckResult], None]) -> None:
    """Replace the last value, read the new one, and check that a write on condition of the old value is refused."""
    records = store.named_records
    began = time.monotonic()
    try:
        for _ in range(_TRIES):
            before = await records.read(_RECORD)
            value = secrets.token_bytes(16)
            if await records.replace(_RECORD, before, value):
                break
            await asyncio.sleep(0)
        else:
            note(
                CheckResult(
                    "compare-and-set",
                    CheckStatus.UNKNOWN,
                    "other checks run at the same time, and each time one of them wrote first",
                )
            )
            return
        ms = (time.monotonic() - began) * 1000
        seen = await records.read(_RECORD)
        was_refused = not await records.replace(_RECORD, before, secrets.token_bytes(16))
    except HedwigError as exc:
        note(CheckResult("compare-and-set", _verdict_on(exc), explain(exc, url)))
        return
    if not was_refused:
        note(
            CheckResult("compare-and-set", CheckStatus.FAIL, "a write was done under a condition that did not hold", ms)
        )
    elif seen is None:
        note(CheckResult("compare-and-set", CheckStatus.FAIL, "the value that was written cannot be read", ms))
    else:
        is_slow = ms > _SLOW_MS
        more = f": slower than {_SLOW_MS:.0f} ms, and each claim of a topic waits for one" if is_slow else ""
        verdict = CheckStatus.WARN if is_slow else CheckStatus.PASS
        note(CheckResult("compare-and-set", verdict, f"done, read and guarded, in {ms:.0f} ms{more}", ms))


async def _check_tables(store: MetadataStore, url: str, note: Callable[[CheckResult], None]) -> None:
    """Look up keys all over each of the three tables, since a store may answer while a part of it is out of reach.

    The keys are of topics that do not exist, so the lookups find nothing.
    """
    topics = [as_topic(b"hedwig-health-check/%d" % number) for number in range(_KEYS)]
    of_topics = [Read(RecordKey(topic)) for topic in topics]
    of_subscriptions = [Read(RecordKey(topic, SubscriberId(_RECORD.encode()))) for topic in topics]
    began = time.monotonic()
    try:
        outcomes: list[Outcome[Any]] = [
            *await store.ownership.apply(of_topics),
            *await store.persistence.apply(of_topics),
            *await store.subscriptions.apply(of_subscriptions),
        ]
        for outcome in outcomes:
            outcome.check()
    except HedwigError as exc:
        note(CheckResult("tables", _verdict_on(exc), explain(exc, url)))
        return
    ms = (time.monotonic() - began) * 1000
    said = f"{_KEYS} keys were looked up in each of ownership, persistence and subscriptions, in {ms:.0f} ms"
    note(CheckResult("tables", CheckStatus.PASS, said, ms))


async def _check_freeze(
    deployment: Deployment, store: MetadataStore, url: str, note: Callable[[CheckResult], None]
) -> str | None:
    """Note whether the store is frozen or was moved; return what happened to it if no hub can start on it."""
    try:
        freeze = await read_freeze(store.named_records)
    except HedwigError as exc:
        note(CheckResult("freeze", _verdict_on(exc), explain(exc, url)))
        return None
    if freeze is None or not freeze.forbids_writes:
        return None
    is_moved = freeze.state is FreezeState.MOVED
    note(CheckResult("freeze", CheckStatus.FAIL if is_moved else CheckStatus.WARN, describe_freeze(deployment, freeze)))
    return freeze.what if is_moved else None


def _verdict_on(error: HedwigError) -> CheckStatus:
    # A wrong URL or option tells nothing about the store: the check could not look at it.
    return CheckStatus.UNKNOWN if isinstance(error, ConfigurationError) else CheckStatus.FAIL
