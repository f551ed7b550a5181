"""An event of many topics at once takes a few lines of the log, and their counts are complete."""

import logging
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import hedwig.hub
from hedwig.errors import MetadataUnavailableError, RemoteProtocolError, ServiceDownError
from hedwig.hub.log_lines import _ABOUT_CONNECTIONS, CountingHandler
from tests.hub.support.wire_client import eventually

_WINDOW_S = 0.1


class _Kept(logging.Handler):
    """Keeps the texts of its records."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


@pytest.fixture
def kept() -> _Kept:
    return _Kept()


@pytest.fixture
def log(kept: _Kept) -> Iterator[logging.Logger]:
    """Return a logger whose lines go through the handler to `kept`."""
    log = logging.Logger("some.module")
    handler = CountingHandler(kept, _WINDOW_S)
    log.addHandler(handler)
    yield log
    handler.close()


def _counted(texts: list[str]) -> int:
    """Return the number of lines that these texts stand for."""
    matches = [re.search(r"\[and ([\d,]+) more", text) for text in texts]
    return sum(1 + (int(match[1].replace(",", "")) if match else 0) for match in matches)


def test_a_storm_is_one_line_at_once_and_one_a_window_with_the_count_and_three_names(kept: _Kept) -> None:
    log = logging.Logger("some.module")
    handler = CountingHandler(kept, 3600.0)
    log.addHandler(handler)
    cause = ServiceDownError("the store is away")
    for number in range(1000):
        log.warning("topic %s is given up: %s", f"'t{number}'", cause)
    assert kept.texts == ["topic 't0' is given up: the store is away"]
    handler.close()
    assert kept.texts[1:] == [
        "topic 't999' is given up: the store is away [and 998 more like it within 3600 s: 't1', 't2', 't3', …]"
    ]


async def test_a_storm_is_told_of_while_it_lasts(log: logging.Logger, kept: _Kept) -> None:
    for number in range(1000):
        log.warning("topic %s is given up", number)
    await eventually(lambda: _counted(kept.texts) == 1000, "all of them are told of")
    assert len(kept.texts) < 100


def test_what_is_less_than_a_warning_is_counted_from_the_eleventh_line_on(kept: _Kept) -> None:
    log = logging.Logger("some.module", logging.DEBUG)
    handler = CountingHandler(kept, 3600.0)
    log.addHandler(handler)
    for number in range(1000):
        log.info("the writer of ledger %d ends", number)
        log.debug("ledger %d", number)
    info = [text for text in kept.texts if "writer" in text]
    assert info == [f"the writer of ledger {number} ends" for number in range(10)]
    assert len(kept.texts) == 1000 + 10
    handler.close()
    assert kept.texts[-1] == ("the writer of ledger 999 ends [and 989 more like it within 3600 s: 10, 11, 12, …]")


def test_kinds_and_causes_are_counted_apart_and_few_lines_that_are_less_than_a_warning_are_not(kept: _Kept) -> None:
    log = logging.Logger("some.module")
    handler = CountingHandler(kept, 3600.0)
    log.addHandler(handler)
    for number in range(3):
        log.warning("topic %s is given up: %s", number, ServiceDownError("away"))
        log.warning("topic %s is given up: %s", number, MetadataUnavailableError("away, too"))
        log.error("topic %s is left", number)
        log.info("topic %s is released", number)
    assert [text for text in kept.texts if "released" in text] == [f"topic {number} is released" for number in range(3)]
    handler.close()
    assert len(kept.texts) == 3 + 3 * 2
    assert _counted(kept.texts) == 12


def test_lines_about_connections_are_counted_too_if_they_only_inform(kept: _Kept) -> None:
    handler = CountingHandler(kept, 3600.0, 60.0)
    channels, others = logging.Logger("hedwig.hub.connections.channel"), logging.Logger("hedwig.hub.topics.topics")
    channels.addHandler(handler)
    others.addHandler(handler)
    for number in range(100):
        channels.info("%s: the connection ended inside a frame", f"peer {number}")
        channels.warning("%s: closing the connection: %s", f"peer {number}", RemoteProtocolError("noise"))
        channels.debug("%s: a detail", f"peer {number}")
    others.info("topic '%s' is handed over", "t")
    others.info("topic '%s' is handed over", "u")
    assert [text for text in kept.texts if "a detail" not in text] == [
        "peer 0: the connection ended inside a frame",
        "peer 0: closing the connection: noise",
        "topic 't' is handed over",
        "topic 'u' is handed over",
    ]
    handler.close()
    assert kept.texts[-2:] == [
        "peer 99: the connection ended inside a frame [and 98 more like it within 60 s: peer 1, peer 2, peer 3, …]",
        "peer 99: closing the connection: noise [and 98 more like it within 60 s: peer 1, peer 2, peer 3, …]",
    ]


def test_the_loggers_about_connections_are_those_of_the_modules_that_name_peers() -> None:
    naming = set[str]()
    top = Path(hedwig.hub.__file__).parent
    for path in top.rglob("*.py"):
        if re.search(r"_log\.(info|warning)\(\s*\"%s: [^)]*\bpeer\b", path.read_text()):
            naming.add(".".join(("hedwig", "hub", *path.relative_to(top).with_suffix("").parts)))
    assert naming == _ABOUT_CONNECTIONS


async def test_a_line_after_a_quiet_window_is_said_at_once(log: logging.Logger, kept: _Kept) -> None:
    before = threading.active_count()
    log.warning("once")
    await eventually(lambda: threading.active_count() == before, "the window is over")
    log.warning("once")
    assert kept.texts == ["once", "once"]


def test_lines_of_many_threads_are_all_counted(kept: _Kept) -> None:
    log = logging.Logger("some.module")
    handler = CountingHandler(kept, _WINDOW_S)
    log.addHandler(handler)

    def storm() -> None:
        for number in range(2000):
            log.warning("segment %d", number)

    threads = [threading.Thread(target=storm) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    handler.close()
    assert _counted(kept.texts) == 8000
