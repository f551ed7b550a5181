"""Prove that a hub reads rules that a writer has not counted, since it was killed between its two writes."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hedwig.access import Rule
from hedwig.clock import SystemClock
from hedwig.errors import QuotaExceededError, ServiceDownError, UncertainStateError
from hedwig.hub.access.access_control import AccessControl
from hedwig.hub.access.caller import Caller
from hedwig.hub.options.access_options import AccessOptions
from hedwig.metadata import NamedRecords, format_metadata, open_metadata
from hedwig.metadata.access.rule_records import RuleRecords
from hedwig.model import Topic
from hedwig.wire import Message, Publish, Request
from tests.faults.support.waiting import until

RULES = (Rule.parse("deny user:local publish *"),)


class Ahead(SystemClock):
    """A clock that the test can put forward."""

    ahead_s = 0.0

    def monotonic(self) -> float:
        return SystemClock.monotonic() + self.ahead_s


@pytest.fixture
async def named(tmp_path: Path) -> AsyncIterator[NamedRecords]:
    url = f"sqlite://{tmp_path / 'metadata.db'}"
    await format_metadata(url)
    async with await open_metadata(url) as store:
        yield store.named_records


async def test_a_change_that_was_not_counted_is_read_within_a_minute(
    named: NamedRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Ahead()
    control = AccessControl(AccessOptions(mode="rules"), RuleRecords(named), clock, None)
    await control.refresh()
    replace = type(named).replace

    async def killed(self: NamedRecords, name: str, expected: bytes | None, value: bytes) -> bool:
        if name == "access-changes":
            raise UncertainStateError("the test")
        return await replace(self, name, expected, value)

    with monkeypatch.context() as patch:
        patch.setattr(type(named), "replace", killed)
        with pytest.raises(UncertainStateError):
            await RuleRecords(named).replace("user:local", RULES)
    clock.ahead_s = 30
    assert not await control.refresh(), "the count has not moved"
    clock.ahead_s = 61
    assert await control.refresh()
    book = control.book
    assert not await control.refresh()
    assert control.book is book, "what has not changed costs nothing"


async def test_a_counted_change_is_read_at_once(named: NamedRecords) -> None:
    control = AccessControl(AccessOptions(mode="rules"), RuleRecords(named), SystemClock(), None)
    assert control.why_unknown == "this hub has not read the rules of access control yet"
    await control.refresh()
    assert control.why_unknown is None
    await RuleRecords(named).replace("user:local", RULES)
    assert await control.refresh()


@dataclass
class Asking:
    """A connection of a user."""

    caller: Caller | None
    peer: str = "test"
    counted_as: tuple[str, ...] = ()
    why_over: QuotaExceededError | None = None

    def close(self) -> None:
        raise AssertionError("nothing closes it")


async def test_what_is_let_pass_after_a_timer_that_fired_early_is_asked_again_too(named: NamedRecords) -> None:
    clock = Ahead()
    control = AccessControl(AccessOptions(mode="rules", stale_max_s=0.1), RuleRecords(named), clock, None)
    await RuleRecords(named).replace("user:local", (Rule.parse("allow user:local publish *"),))
    await control.refresh()
    first, caller = control._ageing, control.caller("test", None)
    assert caller is not None
    clock.ahead_s = -0.3
    await until(lambda: control._ageing is not first, "the timer has fired, and the rules are not too old")
    control.check(Asking(caller), Request(topic=Topic(b"t"), txn_id=1, action=Publish(Message(b"m"))))
    assert caller.publishes
    clock.ahead_s = 1.0
    await until(lambda: not caller.publishes, "it is asked again")
    with pytest.raises(ServiceDownError, match="cannot be read"):
        control.check(Asking(caller), Request(topic=Topic(b"t"), txn_id=2, action=Publish(Message(b"m"))))
