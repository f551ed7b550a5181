"""The nodes that the original wrote, and the records that it was asked to write, in one checked-in JSON file."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hedwig.model import (
    HubInfo,
    LedgerRange,
    LedgerRanges,
    MessageSeqId,
    RegionSeqId,
    SubscriberId,
    SubscriptionData,
    SubscriptionPreferences,
    SubscriptionState,
    Topic,
)
from tests.java_hedwig.support.znodes import Znode

__all__ = ["FIXTURE_PATH", "Stage", "TopicRecords", "read_fixture", "write_fixture"]

FIXTURE_PATH: Final = Path(__file__).with_name("java-hedwig-4.3.2.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecords:
    """The records of one topic, and the output of the original's console about it at the time of the dump."""

    owner: HubInfo | None
    ranges: LedgerRanges | None
    subscriptions: Mapping[SubscriberId, SubscriptionData]
    console: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One dump: the nodes below /hedwig/standalone, and the records that they must give."""

    name: str
    nodes: tuple[Znode, ...]
    topics: Mapping[Topic, TopicRecords]


def write_fixture(header: Mapping[str, Any], stages: list[Stage]) -> None:
    """Write the file, one node or record a line, so that people can read a difference."""
    lines = ["{", ' "header": ' + json.dumps(header, ensure_ascii=False, indent=2) + ",", ' "stages": [']
    for stage in stages:
        topics = [
            f"{json.dumps(name.decode(), ensure_ascii=False)}: {_row(_topic_json(one))}"
            for name, one in stage.topics.items()
        ]
        lines += ["  {", f'   "name": {json.dumps(stage.name)},', '   "nodes": [']
        lines.append(",\n".join("    " + _row(_node_json(node)) for node in stage.nodes))
        lines += ["   ],", '   "topics": {', ",\n".join("    " + topic for topic in topics), "   }"]
        lines.append("  }" if stage is stages[-1] else "  },")
    FIXTURE_PATH.write_text("\n".join([*lines, " ]", "}"]) + "\n")


def read_fixture() -> list[Stage]:
    """Read the file back."""
    return [
        Stage(
            name=stage["name"],
            nodes=tuple(_node(node) for node in stage["nodes"]),
            topics={Topic(name.encode()): _topic(topic) for name, topic in stage["topics"].items()},
        )
        for stage in json.loads(FIXTURE_PATH.read_text())["stages"]
    ]


def _row(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


# ---------------------------------------------------------------------------------------------------------------- nodes


def _node_json(node: Znode) -> dict[str, Any]:
    shown = {"path": node.path, "hex": node.data.hex(), "czxid": node.czxid, "version": node.version}
    return shown | {"ephemeral": node.ephemeral}


def _node(shown: Mapping[str, Any]) -> Znode:
    return Znode(
        path=shown["path"],
        data=bytes.fromhex(shown["hex"]),
        czxid=shown["czxid"],
        version=shown["version"],
        ephemeral=shown["ephemeral"],
    )


# -------------------------------------------------------------------------------------------------------------- records


def _topic_json(topic: TopicRecords) -> dict[str, Any]:
    owner = topic.owner
    return {
        "owner": owner and {"host": owner.host, "port": owner.port, "ssl_port": owner.ssl_port, "epoch": owner.epoch},
        "ranges": topic.ranges and [_range_json(one) for one in topic.ranges.ranges],
        "subscriptions": {name.decode(): _subscription_json(data) for name, data in topic.subscriptions.items()},
        "console": topic.console,
    }


def _topic(shown: Mapping[str, Any]) -> TopicRecords:
    ranges = shown["ranges"]
    return TopicRecords(
        owner=HubInfo(**shown["owner"]) if shown["owner"] else None,
        ranges=None if ranges is None else LedgerRanges(tuple(_range(one) for one in ranges)),
        subscriptions={SubscriberId(name.encode()): _subscription(one) for name, one in shown["subscriptions"].items()},
        console=shown["console"],
    )


def _range_json(one: LedgerRange) -> dict[str, Any]:
    return {"ledger_id": one.ledger_id, "start": one.start, "end": one.end and _seq_id_json(one.end)}


def _range(shown: Mapping[str, Any]) -> LedgerRange:
    end = shown["end"]
    return LedgerRange(ledger_id=shown["ledger_id"], start=shown["start"], end=None if end is None else _seq_id(end))


def _subscription_json(data: SubscriptionData) -> dict[str, Any]:
    assert data.state is not None
    assert data.preferences is not None
    wanted = data.preferences
    return {
        "consumed": _seq_id_json(data.state.consumed),
        "options": {name: value.hex() for name, value in wanted.options.items()},
        "message_bound": wanted.message_bound,
        "message_filter": wanted.message_filter,
        "message_window_size": wanted.message_window_size,
    }


def _subscription(shown: Mapping[str, Any]) -> SubscriptionData:
    return SubscriptionData(
        state=SubscriptionState(_seq_id(shown["consumed"])),
        preferences=SubscriptionPreferences(
            options={name: bytes.fromhex(value) for name, value in shown["options"].items()},
            message_bound=shown["message_bound"],
            message_filter=shown["message_filter"],
            message_window_size=shown["message_window_size"],
        ),
    )


def _seq_id_json(seq_id: MessageSeqId) -> dict[str, Any]:
    return {"local": seq_id.local, "remote": {one.region.decode(): one.seq_id for one in seq_id.remote}}


def _seq_id(shown: Mapping[str, Any]) -> MessageSeqId:
    remote = (RegionSeqId(region.encode(), seq_id) for region, seq_id in shown["remote"].items())
    return MessageSeqId(shown["local"], tuple(remote))
