"""Prove that the audit log has each kind of refusal and their number, stays bounded, and is nobody else's."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from hedwig.clock import SystemClock
from hedwig.errors import ConfigurationError
from hedwig.hub.access.audit import Audit
from hedwig.hub.options.access_options import AccessOptions
from hedwig.metadata.access.rule_records import RuleRecords
from hedwig.model import Topic
from hedwig.wire import Message, Publish
from tests.hub.conftest import Connect, StartHub

KIB = 1 << 10


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def files(path: Path) -> list[Path]:
    return list(path.parent.glob(f"{path.name}*"))


def modes(path: Path) -> set[int]:
    return {stat.S_IMODE(each.stat().st_mode) for each in files(path)}


async def test_refusals_of_a_kind_are_written_once_and_counted(path: Path) -> None:
    audit = Audit(path, 64 * KIB, SystemClock())
    for number in range(5):
        audit.refused("1.2.3.4:5", "user:ann", "publish", b"orders/%d" % number, None)
    audit.refused("1.2.3.4:5", "user:ann", "subscribe", b"orders/1", b"b\xff")
    await audit.sweep()
    audit.refused("1.2.3.4:5", "user:ann", "publish", b"orders/9", None)
    await audit.close()
    assert [{key: value for key, value in line.items() if key not in ("at", "peer")} for line in lines(path)] == [
        {"event": "refused", "who": "user:ann", "action": "publish", "topic": "orders/0"},
        {"event": "refused", "who": "user:ann", "action": "subscribe", "topic": "orders/1", "subscriber": "b\\xff"},
        {"event": "refused again", "who": "user:ann", "action": "publish", "topics": "orders/…", "count": 4},
        {"event": "refused", "who": "user:ann", "action": "publish", "topic": "orders/9"},
    ]
    assert modes(path) == {0o600}


async def test_names_and_files_are_bounded(path: Path) -> None:
    audit = Audit(path, 64 * KIB, SystemClock())
    for number in range(2_000):
        audit.refused("peer", "user:ann", "publish", b"%d/" % number + b"\xff" * 8_000, None)
    await audit.close()
    sizes = [each.stat().st_size for each in files(path)]
    assert 2 <= len(sizes) <= 8
    assert sum(sizes) <= 64 * KIB + 8 * KIB
    assert modes(path) == {0o600}
    assert max(len(line["topic"]) for line in lines(path) if "topic" in line) <= 257


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot write the audit log"):
        Audit(tmp_path / "none" / "audit.jsonl", 64 * KIB, SystemClock())


async def test_a_hub_writes_what_its_rules_refuse(start_hub: StartHub, connect: Connect, path: Path) -> None:
    hub = await start_hub(access=AccessOptions(mode="rules", audit_file=str(path)))
    await RuleRecords(hub.metadata.named_records).replace("user:ann", ())
    client = await connect(hub)
    for _ in range(3):
        await client.request(Topic(b"news"), Publish(Message(b"a secret")))
    await hub.close()
    refused = [line for line in lines(path) if line["event"].startswith("refused")]
    assert [(line["event"], line["who"], line["action"]) for line in refused] == [
        ("refused", "user:local", "publish"),
        ("refused again", "user:local", "publish"),
    ]
    assert refused[1]["count"] == 2
    assert not any("a secret" in str(line) for line in lines(path))
