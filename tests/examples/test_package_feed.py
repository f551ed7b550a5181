"""The package feed over a reduced graph: each subscriber receives each update, and errors take one line."""

import gzip
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from examples.package_feed import Graph, Received, difference
from hedwig.client import BlockingClient, ClientOptions, HubAddress
from hedwig.model import SubscriptionPreferences, Topic
from tests.hub.support.running import RunningHub
from tests.support.checkout import CHECKOUT

_FEED: Final = [sys.executable, str(CHECKOUT / "examples" / "package_feed.py")]
_FOLLOWED: Final = Topic(b"libs/libc6")
_SUBSCRIBERS: Final = 60
_LONG: Final = ("--limit", "5000")
"""So much that the feed is not done before something happens to it."""
_DEADLINE_S: Final = 120.0


@contextmanager
def _begun(directory: Path, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Start the feed, with its temporary files in `directory`."""
    pipe = subprocess.PIPE
    environment = {"PYTHONPATH": str(CHECKOUT), "TMPDIR": str(directory), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [*_FEED, *arguments], stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, env=environment
    ) as feed:
        try:
            yield feed
        finally:
            feed.kill()


def _run(directory: Path, *arguments: str) -> tuple[int, str, str]:
    """Return the exit code, standard output and standard error of a feed."""
    with _begun(directory, *arguments) as feed:
        out, err = feed.communicate(timeout=_DEADLINE_S)
        return feed.returncode, out, err


def _wait_for(feed: "subprocess.Popen[str]", start: str) -> str:
    """Read standard error up to a line that begins with `start`, and return what was read."""
    assert feed.stderr is not None
    lines: list[str] = []
    for line in feed.stderr:
        lines.append(line)
        if line.startswith(start):
            return "".join(lines)
    raise AssertionError(f"no line begins with {start!r}: {lines}")


def _count(out: str, phase: str) -> int:
    match = re.search(rf"^{phase} +([\d,]+) ", out, re.MULTILINE)
    assert match is not None, out
    return int(match[1].replace(",", ""))


def test_each_subscriber_receives_each_update(tmp_path: Path) -> None:
    code, out, err = _run(tmp_path, "--limit", str(_SUBSCRIBERS), "--updates", "2")
    assert code == 0, out + err
    # Counted in the file itself, and not by what the feed made of it.
    with gzip.open(CHECKOUT / "examples" / "data" / "subscriptions.tsv.gz") as lines:
        every = [(topic, name) for topic, name in (line.rstrip(b"\n").split(b"\t") for line in lines)]
    names = sorted({name for _, name in every})
    kept = {names[index * len(names) // _SUBSCRIBERS] for index in range(_SUBSCRIBERS)}
    edges = [(topic, name) for topic, name in every if name in kept]
    followers = {name for topic, name in edges if topic == _FOLLOWED}
    followed = [name for _, name in edges if name in followers]
    assert len(followers) > 10
    assert _count(out, "subscribe") == len(edges)
    assert _count(out, "publish") == 2 * len({topic for topic, _ in edges})
    expected = 2 * len(followed)
    assert (
        f"received: {expected:,} of {expected:,} messages on {len(followed):,} subscriptions of "
        f"{len(followers):,} subscribers: each once and in order\n"
    ) in out
    assert re.search(r"^peak memory: client [1-9]\d* MiB, hub [1-9]\d* MiB$", out, re.MULTILINE)
    assert list(tmp_path.iterdir()) == [], "the hub's data are left"


def test_a_hub_is_used_twice_and_what_it_withholds_is_missed(tmp_path: Path) -> None:
    withheld = Graph.read(_SUBSCRIBERS).followed(_FOLLOWED)[1][0]
    with RunningHub(tmp_path / "hub") as hub:
        arguments = ("--hub", hub.address, "--limit", str(_SUBSCRIBERS), "--updates")
        code, out, err = _run(tmp_path, *arguments, "1")
        assert code == 0, out + err
        # From now on this subscription gets the newest message only, whatever is published before it attaches.
        with BlockingClient(ClientOptions(hub=HubAddress.parse(hub.address))) as client:
            preferences = SubscriptionPreferences(message_bound=1)
            client.subscribe(withheld.topic, withheld.subscriber, preferences=preferences).close()
        code, out, err = _run(tmp_path, *arguments, "3")
    assert code == 1, out + err
    who = f"'{withheld.subscriber.decode()}' on '{withheld.topic.decode()}'"
    # Positions go on from the first run, whose message was number 1 of its topic.
    assert [line for line in err.splitlines() if line.startswith("wrong: ")] == [f"wrong: {who}: not received: 2, 3"]
    assert "1 subscriptions are wrong\n" in out


def test_a_hub_that_dies_ends_the_feed_with_one_line(tmp_path: Path) -> None:
    with RunningHub(tmp_path / "hub") as hub, _begun(tmp_path, "--hub", hub.address, *_LONG) as feed:
        _wait_for(feed, "subscribe: ")
        hub.kill()
        out, err = feed.communicate(timeout=_DEADLINE_S)
    assert feed.returncode == 1
    assert out == ""
    assert re.fullmatch(r"(subscribe: .*\n)*Error: .*hub.*\n", err)


def test_no_hub_is_said_in_one_line(tmp_path: Path) -> None:
    code, out, err = _run(tmp_path, "--hub", "127.0.0.1:1", "--limit", "60")
    assert (code, out) == (1, "")
    assert re.fullmatch(r"(subscribe: .*\n)*Error: cannot connect to the hub 127.0.0.1:1: .*\n", err)


def test_a_topic_that_nobody_depends_on_cannot_be_followed(tmp_path: Path) -> None:
    code, out, err = _run(tmp_path, "--follow", "libs/none", "--limit", "60")
    assert (code, out) == (1, "")
    assert err.startswith("Error: no package in this graph depends on 'libs/none'")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "kill"])
def test_a_feed_that_is_ended_ends_its_hub(tmp_path: Path, number: signal.Signals, code: int) -> None:
    with _begun(tmp_path, *_LONG) as feed:
        _wait_for(feed, "subscribe: ")
        feed.send_signal(number)
        out, err = feed.communicate(timeout=_DEADLINE_S)
    assert (feed.returncode, out) == (code, "")
    assert "Traceback" not in err
    (kept,) = tmp_path.iterdir()
    # A directory that a hub still uses is locked against another one.
    RunningHub(kept).start().stop()


_FIRST: Final = (1, b"one")
_SECOND: Final = (2, b"two")


@pytest.mark.parametrize(
    ("received", "wrong"),
    [
        ([_FIRST, _SECOND], None),
        ([_SECOND], "not received: 1"),
        ([], "not received: 1, 2"),
        ([_FIRST, _SECOND, (3, b"three")], "never published: 3"),
        ([_FIRST, (2, b"other")], "not received: 2"),
        ([_FIRST, _SECOND, _FIRST], "received twice: 1"),
        ([_SECOND, _FIRST], "out of order: 2, 1"),
    ],
)
def test_every_difference_is_seen(received: Sequence[Received], wrong: str | None) -> None:
    assert difference([_FIRST, _SECOND], received) == wrong
