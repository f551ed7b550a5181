"""Prove that names map one to one to paths that the server accepts unchanged, and sort as the tree does."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kazoo.client import KazooClient
from kazoo.protocol.paths import normpath

from hedwig.metadata import RecordKey
from hedwig.metadata.testing.awkward_names import AWKWARD
from hedwig.metadata.zookeeper.records.paths import COMPONENTS_MAX, ESCAPE, Paths, sort_key, subscriber_of, topic_of
from hedwig.model import SubscriberId, Topic
from hedwig.names import NAME_BYTES_MAX
from tests.metadata.zookeeper.conftest import Prefix

PATHS: Final = Paths("/hedwig/region")
ROOT: Final = f"{PATHS.topics}/"

_PLAIN: Final = [b"a", b"b", b"/", b".", b"%", b"=", b" ", ESCAPE.encode(), b"%2f", "é".encode()]
_ODD: Final = [b"\0", b"\xff", b"\xed\xa0\x80", *(text.encode() for text in ("\U0001f4e8", "\ufff0", "\ue000"))]
_FRAGMENTS: Final = st.sampled_from([*_PLAIN, *_ODD, b"hub", b"ledgers", b"subscribers", b"topics"])
names = st.one_of(
    st.binary(min_size=1, max_size=20),
    st.text(min_size=1, max_size=12).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.lists(_FRAGMENTS, min_size=1, max_size=6).map(b"".join),
    st.sampled_from(AWKWARD),
).filter(lambda name: 1 <= len(name) <= NAME_BYTES_MAX)


def _topic_path(name: bytes) -> str:
    return PATHS.topic(Topic(name))


def _subscription_path(name: bytes, topic: bytes = b"t") -> str:
    return PATHS.subscription(RecordKey(Topic(topic), SubscriberId(name))).path


def _server_refuses(path: str) -> bool:
    """Return what org.apache.zookeeper.common.PathUtils says of a path: it judges the UTF-16 units."""
    encoded = path.encode("utf-16-be", "surrogatepass")
    units = [int.from_bytes(encoded[at : at + 2], "big") for at in range(0, len(encoded), 2)]
    forbidden = [
        unit
        for unit in units
        if unit <= 0x1F or 0x7F <= unit <= 0x9F or 0xD800 <= unit <= 0xF8FF or 0xFFF0 <= unit <= 0xFFFF
    ]
    components = path.split("/")[1:]
    return bool(forbidden) or not path.startswith("/") or any(part in ("", ".", "..") for part in components)


@given(names)
def test_paths_are_taken_as_they_are(name: bytes) -> None:
    for path in (_topic_path(name), _subscription_path(name)):
        assert not _server_refuses(path)
        assert normpath(path) == path
        path.encode()


@given(names)
def test_topics_come_back(name: bytes) -> None:
    components = _topic_path(name).removeprefix(ROOT).split("/")
    assert topic_of(components) == name


@given(names)
def test_subscribers_come_back(name: bytes) -> None:
    assert subscriber_of(_subscription_path(name).rpartition("/")[2]) == name


@given(names, names)
def test_different_names_have_different_paths(one: bytes, other: bytes) -> None:
    assert (_topic_path(one) == _topic_path(other)) == (one == other)
    assert (_subscription_path(one) == _subscription_path(other)) == (one == other)
    records = {PATHS.topic_record(Topic(one), "hub").path, PATHS.subscribers(Topic(one))}
    assert _topic_path(other) not in records


@given(st.lists(names, max_size=8))
def test_sort_key_is_the_order_of_the_tree(some: list[bytes]) -> None:
    def in_the_tree(name: bytes) -> tuple[bytes, ...]:
        return tuple(part.encode() for part in _topic_path(name).removeprefix(ROOT).split("/"))

    assert sorted(some, key=lambda name: sort_key(Topic(name))) == sorted(some, key=in_the_tree)


@pytest.mark.parametrize("name", ["T", "a/b/c", "a b", "Ünïcode/テスト", "hub-1", "a%=b", "topics/hosts", "\u2028"])
def test_what_the_original_can_store_keeps_its_path(name: str) -> None:
    assert _topic_path(name.encode()) == ROOT + name


@pytest.mark.parametrize(
    ("name", "component"),
    [
        (b"a//b", "%=a%2f%2fb"),
        (b"/a", "%=%2fa"),
        (b"a/", "%=a%2f"),
        (b".", "%=."),
        (b"a/../b", "%=a%2f..%2fb"),
        (b"\x00\xff", "%=%00%ff"),
        (b"a/hub", "%=a%2fhub"),
        (b"subscribers", "%=subscribers"),
        (b"%=a", "%=%25%3da"),
        (b"a/%=b", "%=a%2f%25%3db"),
        ("\U0001f4e8".encode(), "%=%f0%9f%93%a8"),
        ("\ue000".encode(), "%=%ee%80%80"),
    ],
)
def test_what_it_cannot_store_is_one_escaped_component(name: bytes, component: str) -> None:
    assert _topic_path(name) == ROOT + component


def test_nesting_has_an_end() -> None:
    """Deeper trees overflow the stack of a server that writes a snapshot. Such a server never starts again."""
    deepest, deeper = b"/".join([b"a"] * COMPONENTS_MAX), b"/".join([b"a"] * (COMPONENTS_MAX + 1))
    assert _topic_path(deepest) == ROOT + deepest.decode()
    assert _topic_path(deeper) == ROOT + ESCAPE + deeper.decode().replace("/", "%2f")
    assert topic_of(["a"] * COMPONENTS_MAX) == deepest
    assert topic_of(["a"] * (COMPONENTS_MAX + 1)) is None


def test_subscriber_with_a_slash_is_one_component() -> None:
    assert _subscription_path(b"a/b") == f"{ROOT}t/subscribers/%=a%2fb"
    assert _subscription_path(b"hub") == f"{ROOT}t/subscribers/hub"


@pytest.mark.parametrize(
    "components", [("%=",), ("%=a",), ("%=%2F",), ("%=%00%zz",), ("a", "%=%00"), ("%=%00", "a"), ("a", "hub")]
)
def test_nodes_that_only_look_like_topics_are_none(components: tuple[str, ...]) -> None:
    """`%=a` would stand for `a`, which has a path of its own."""
    assert topic_of(components) is None


@pytest.mark.parametrize("component", ["%=", "%=a", "%=%2F", "%=%"])
def test_nodes_that_only_look_like_subscribers_are_none(component: str) -> None:
    assert subscriber_of(component) is None


def test_ways_down_end_at_the_parent() -> None:
    record_path = PATHS.subscription(RecordKey(Topic(b"a/b"), SubscriberId(b"s")))
    topics = PATHS.topics
    assert list(PATHS.above(record_path)) == [topics, f"{topics}/a", f"{topics}/a/b", f"{topics}/a/b/subscribers"]


def test_the_server_stores_awkward_paths_byte_for_byte(raw: KazooClient, prefix: Prefix) -> None:
    paths = Paths(prefix.path)
    raw.ensure_path(paths.topics)
    wanted = set()
    for name in [name for name in AWKWARD if len(_topic_path(name).split("/")) < 50]:
        path = paths.topic(Topic(name))
        raw.ensure_path(path)
        wanted.add(path.removeprefix(f"{paths.topics}/"))
    stored = set()
    waiting = [""]
    while waiting:
        above = waiting.pop()
        for child in raw.get_children(f"{paths.topics}{above}"):
            stored.add(f"{above}/{child}".removeprefix("/"))
            waiting.append(f"{above}/{child}")
    assert wanted <= stored
    assert all(any(name == path or name.startswith(f"{path}/") for name in wanted) for path in stored)
