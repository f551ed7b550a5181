"""Hubs that ask rules, and may be given limits."""

from collections.abc import Awaitable, Callable

import pytest

from hedwig.access import parse_rule
from hedwig.hub.hub import Hub
from hedwig.hub.options.access_options import AccessOptions
from hedwig.metadata.access.rule_records import RuleRecords
from tests.hub.conftest import StartHub

__all__ = ["Start", "add_rules"]

Start = Callable[..., Awaitable[Hub]]

_ALL = ("allow * publish,create *", "allow * subscribe,unsubscribe * as *")


async def add_rules(hub: Hub, *texts: str) -> None:
    """Add rules or limits, and let the hub read them."""
    records = RuleRecords(hub.metadata.named_records)
    for rule in map(parse_rule, texts):
        await records.change(rule.who, lambda rules, rule=rule: (*rules, rule))  # type: ignore[misc]
    assert hub.access is not None
    await hub.access.refresh()


@pytest.fixture
def start(start_hub: StartHub) -> Start:
    """Start a hub where all is allowed but for limits: `start(*limits, mode=..., hub={...}, **access_options)`."""

    async def start(*texts: str, mode: str = "rules", hub: dict[str, object] | None = None, **options: object) -> Hub:
        access = AccessOptions(mode=mode, **{"refresh_s": 0.05, **options})  # type: ignore[arg-type]
        started = await start_hub(access=access, **(hub or {}))
        await add_rules(started, *_ALL, *texts)
        return started

    return start
