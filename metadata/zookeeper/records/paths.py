"""Names as znode paths: the original's where it can store them, one escaped component where it cannot.

A topic keeps its name as its path, byte for byte, with its slashes nesting nodes, if all of this holds:

- It is UTF-8.
- Both the server and kazoo accept every component as it is.
- No component looks like something else: `hub`, `ledgers` and `subscribers` are records of the node above, and ESCAPE
  starts what this module escapes.
- There are at most COMPONENTS_MAX components.

Every other topic is one component directly under `topics`: ESCAPE, then its name. Letters, digits, `_`, `.` and `-`
stay as they are, and all other bytes become %xx. A subscriber id is always one component, by the same rules. The three
record names are harmless there.

Listings follow the order of the tree: a topic before those nested in it, neighbours by their bytes. Components are
never empty and never hold a zero byte. So the components joined by zero bytes, `sort_key`, sort the same way.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes

from hedwig.metadata.contract.operations import RecordKey
from hedwig.model import SubscriberId, Topic

__all__ = [
    "COMPONENTS_MAX",
    "ESCAPE",
    "RECORD_NAMES",
    "Paths",
    "RecordPath",
    "deepest_above",
    "is_plain_topic",
    "is_record_path",
    "legal_component",
    "record_at",
    "sort_key",
    "subscriber_of",
    "topic_of",
]

ESCAPE: Final = "%="
"""How an escaped component starts. The original's names are unlikely to start so; one that does is escaped itself."""

RECORD_NAMES: Final = frozenset({"hub", "ledgers", "subscribers"})
"""The names of the children of a topic's node that hold its records."""

_SUBSCRIBERS: Final = "subscribers"

COMPONENTS_MAX: Final = 128
"""How deep a topic may nest. ZooKeeper writes snapshots by recursion, and a few thousand levels overflow its stack. One
name of 8,192 bytes can ask for that many. A server that cannot write a snapshot does not start again."""

# What org.apache.zookeeper.common.PathUtils refuses. It checks UTF-16 units, so it also refuses surrogates, and with
# them every character beyond U+FFFF.
_ILLEGAL: Final = re.compile("[\0-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]")
_RELATIVE: Final = frozenset({"", ".", ".."})
_KEPT: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
_ESCAPED_BYTE: Final = tuple(chr(byte) if byte in _KEPT else f"%{byte:02x}" for byte in range(256))
_ESCAPED: Final = re.compile(r"(?:[A-Za-z0-9_.-]|%[0-9a-f]{2})+")


@dataclass(frozen=True, slots=True)
class RecordPath:
    """Where a record is: its node, and the parent whose data version guards it."""

    path: str
    parent: str


class Paths:
    """The paths under one prefix, `/hedwig/REGION`."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.topics = f"{prefix}/topics"
        self.layout = f"{prefix}/managers/METADATA/LAYOUT"

    def named(self, name: str) -> str:
        """Return the path of the named record `name`, beside the layout record."""
        return f"{self.prefix}/managers/METADATA/{name}"

    def topic(self, topic: Topic) -> str:
        """Return the path of a topic's node."""
        return f"{self.topics}/{'/'.join(_topic_components(topic))}"

    def subscribers(self, topic: Topic) -> str:
        """Return the path of the node whose children are a topic's subscriptions."""
        return f"{self.topic(topic)}/subscribers"

    def topic_record(self, topic: Topic, name: str) -> RecordPath:
        """Return where a topic keeps its record `name`."""
        parent = self.topic(topic)
        return RecordPath(f"{parent}/{name}", parent)

    def subscription(self, key: RecordKey) -> RecordPath:
        """Return where a subscription is."""
        assert key.subscriber is not None
        parent = self.subscribers(key.topic)
        return RecordPath(f"{parent}/{_subscriber_component(key.subscriber)}", parent)

    def above(self, record_path: RecordPath) -> Iterator[str]:
        """Iterate over the nodes that must exist before `record_path` can, from `topics` down to the parent itself."""
        end = len(self.topics)
        while end != -1:
            yield record_path.parent[:end]
            end = record_path.parent.find("/", end + 1)
        yield record_path.parent


def legal_component(component: str) -> bool:
    """Say whether the server and kazoo both take `component` as it is."""
    return component not in _RELATIVE and "/" not in component and _ILLEGAL.search(component) is None


def is_plain_topic(topic: Topic) -> bool:
    """Say whether a topic keeps its name as its path, so that hubs of the original use the same node."""
    return _plain_components(topic) is not None


def topic_of(components: Sequence[str]) -> Topic | None:
    """Return the topic whose node is at `components` under `topics`, or None if no topic of ours has it."""
    first = components[0]
    if first.startswith(ESCAPE):
        name = _unescape(first)
        if name is None or len(components) > 1 or _plain_components(name) is not None:
            return None
        return Topic(name)
    if len(components) > COMPONENTS_MAX:
        return None
    if any(component.startswith(ESCAPE) or component in RECORD_NAMES for component in components):
        return None
    return Topic("/".join(components).encode())


def is_record_path(path: str) -> bool:
    """Say whether the node at `path`, below `topics`, may hold a record, and is no topic or other parent."""
    above, _, name = path.rpartition("/")
    # A subscriber may have any name.
    return name in ("hub", "ledgers") or above.endswith("/" + _SUBSCRIBERS)


def record_at(components: Sequence[str]) -> tuple[str, Topic, SubscriberId | None] | None:
    """Return name, topic and subscriber of the record in the node at `components` under `topics`; None if it has none.

    The name of a topic's record is that of its node; the name of a subscription is "subscribers". A node whose path no
    name of ours maps to holds no record.
    """
    subscriber: SubscriberId | None = None
    name, above = components[-1], components[:-1]
    if above and above[-1] == _SUBSCRIBERS:
        subscriber = subscriber_of(name)
        if subscriber is None:
            return None
        name, above = _SUBSCRIBERS, above[:-1]
    elif name == _SUBSCRIBERS or name not in RECORD_NAMES:
        return None
    topic = topic_of(above) if above else None
    return None if topic is None else (name, topic, subscriber)


def deepest_above(prefix: bytes) -> Sequence[str] | None:
    """Return the components of the one node that is above every nested topic that starts with `prefix`.

    Return None if there can be no such topic, since the text before the last slash is not the path of a topic.
    """
    above, slash, _ = prefix.rpartition(b"/")
    return _plain_components(above) if slash else ()


def subscriber_of(component: str) -> SubscriberId | None:
    """Return the subscriber id whose node is called `component`, or None if none of ours is."""
    if not component.startswith(ESCAPE):
        return SubscriberId(component.encode())
    name = _unescape(component)
    return SubscriberId(name) if name is not None and _plain_subscriber(name) is None else None


def sort_key(topic: Topic) -> bytes:
    """Return bytes that sort topics as listings do."""
    return "\0".join(_topic_components(topic)).encode()


def _topic_components(topic: bytes) -> Sequence[str]:
    return _plain_components(topic) or (_escape(topic),)


def _subscriber_component(subscriber: bytes) -> str:
    return _plain_subscriber(subscriber) or _escape(subscriber)


def _plain_components(name: bytes) -> list[str] | None:
    text = _plain_text(name)
    if text is None:
        return None
    components = text.split("/")
    if len(components) > COMPONENTS_MAX:
        return None
    for component in components:
        if component in _RELATIVE or component in RECORD_NAMES or component.startswith(ESCAPE):
            return None
    return components


def _plain_subscriber(name: bytes) -> str | None:
    text = _plain_text(name)
    return None if text is None or text in _RELATIVE or "/" in text or text.startswith(ESCAPE) else text


def _plain_text(name: bytes) -> str | None:
    try:
        text = name.decode()
    except UnicodeDecodeError:
        return None
    return text if _ILLEGAL.search(text) is None else None


def _escape(name: bytes) -> str:
    return ESCAPE + "".join(map(_ESCAPED_BYTE.__getitem__, name))


def _unescape(component: str) -> bytes | None:
    """Return the name that escapes to exactly `component`, or None: other spellings are not ours."""
    text = component.removeprefix(ESCAPE)
    if _ESCAPED.fullmatch(text) is None:
        return None
    name = unquote_to_bytes(text)
    return name if _escape(name) == component else None
