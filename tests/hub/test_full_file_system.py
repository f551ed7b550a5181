"""A standalone hub on a small file system that is full: it reports that, and consumes alone bring it back.

The file system is a real one in memory. The hub mounts it over its data directory, where no other process sees it. The
ledgers and the metadata share it, as they do on the disk of a standalone hub.
"""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from hedwig.model import SubscriberId, Topic
from hedwig.status import StatusCode
from hedwig.wire import Message, Publish
from tests.hub.support.running import RunningHub
from tests.hub.support.wire_client import WireClient, eventually

T, S = Topic(b"T"), SubscriberId(b"s")
_MIB: Final = 1 << 20
_BODY: Final = b"x" * 4096
_BURST: Final = 64
_SETTINGS: Final = (
    "ledgers.segment_bytes=4MiB",
    "ledgers.upkeep_interval_s=0.2",
    "retention_interval_s=1",
    "repeat_window_s=1",  # Consumed messages are kept for so long, also on a full disk.
    "consume_flush_s=0.2",
)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[RunningHub]:
    """A hub with a data directory of 16 MiB. The mount and its content vanish with the process."""
    (tmp_path / "data").mkdir()
    script = 'mount -t tmpfs -o size=16m tmpfs "$0" && exec "$@"'
    alone = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, str(tmp_path / "data"))
    with RunningHub(tmp_path, *_SETTINGS, launcher=alone) as running:
        yield running


async def test_consuming_alone_brings_a_hub_back_whose_messages_filled_the_disk(hub: RunningHub) -> None:
    async with await WireClient.connect(hub.port) as client:
        await client.subscribed(T, S)
        count = await _publish_until_refused(client)
        assert count * len(_BODY) > 4 * _MIB
        await eventually(lambda: _why_not_ready(hub), "the hub says that its disk is full")
        assert _metric(hub, "hedwig_hub_ledger_store_is_full") == 1
        assert await client.delivered(count) == list(range(1, count + 1))
        client.consume(T, S, count)
        await eventually(lambda: _takes_publishes(client), "consuming frees the disk")
        await eventually(lambda: not _why_not_ready(hub), "the hub says that it is ready")
        assert await _publish_until_refused(client) * len(_BODY) > 4 * _MIB, "all the space is there again"
        assert hub.log.count("no space left for ledgers") < 20, "the log does not grow with what is refused"


async def test_consuming_goes_on_while_others_fill_the_disk(hub: RunningHub) -> None:
    """The hub notices the full disk without a failed publish. It stores consume pointers, and frees consumed space."""
    async with await WireClient.connect(hub.port) as client:
        await client.subscribed(T, S)
        for _ in range(8):
            await client.publish_many(T, *[_BODY] * _BURST)
        before = _metric(hub, "hedwig_hub_ledger_store_stored_bytes")
        foreign = Path(f"/proc/{hub.pid}/root{hub.data}/foreign")
        await asyncio.to_thread(_fill, foreign)
        await eventually(lambda: _why_not_ready(hub), "the hub says that its disk is full")
        refused = await client.request(T, Publish(Message(_BODY)))
        assert refused.status is StatusCode.SERVICE_DOWN
        assert await client.delivered(8 * _BURST) == list(range(1, 8 * _BURST + 1))
        client.consume(T, S, 8 * _BURST)
        await eventually(
            lambda: _metric(hub, "hedwig_hub_ledger_store_stored_bytes") < before / 2,
            "the hub gives its own space back",
        )
        await asyncio.to_thread(foreign.unlink)
        await eventually(lambda: _takes_publishes(client), "publishes are taken once there is space")
        assert await client.delivered(1) == [8 * _BURST + 1]


async def _publish_until_refused(client: WireClient) -> int:
    """Publish until the hub refuses; return the number of accepted messages. Every refusal must be definite."""
    count = 0
    while True:
        sent = [client.send(T, Publish(Message(_BODY))) for _ in range(_BURST)]
        answers = [await client.answer(txn_id) for txn_id in sent]
        statuses = [each.status for each in answers]
        wrong = [each for each in answers if each.status not in (StatusCode.SUCCESS, StatusCode.SERVICE_DOWN)]
        assert not wrong, wrong[0]
        count += statuses.count(StatusCode.SUCCESS)
        if StatusCode.SERVICE_DOWN in statuses:
            return count


async def _takes_publishes(client: WireClient) -> bool:
    return (await client.request(T, Publish(Message(_BODY)))).status is StatusCode.SUCCESS


def _fill(path: Path) -> None:
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 16))


def _why_not_ready(hub: RunningHub) -> bool:
    """Return whether the hub reports that its disk is full."""
    hindrances = _get(hub, "/ready")["hindrances"]
    assert not hindrances or "the disk is full" in hindrances[0]
    return bool(hindrances)


def _metric(hub: RunningHub, name: str) -> float:
    with urllib.request.urlopen(f"http://{hub.admin}/metrics", timeout=20) as answer:
        lines = answer.read().decode().splitlines()
    return float(next(line for line in lines if line.startswith(f"{name} ")).split()[1])


def _get(hub: RunningHub, path: str) -> Any:
    try:
        with urllib.request.urlopen(f"http://{hub.admin}{path}", timeout=20) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as exc:
        return json.load(exc)
