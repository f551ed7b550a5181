"""Prove that a hub tells what its shared log does, and which topics keep it large."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from hedwig.hub.hub import Hub
from hedwig.model import Topic
from tests.hub.cluster.support.deployment import Deployment
from tests.hub.support.admin_client import AdminClient
from tests.hub.support.wire_client import eventually

_BODY: Final = bytes(1000)
_LATE: Final = b"late"


async def _metrics(admin: AdminClient) -> Mapping[str, float]:
    answer = await asyncio.to_thread(admin.ask, "GET", "/metrics")
    families = text_string_to_metric_families(answer.text)
    return {sample.name: sample.value for family in families for sample in family.samples if not sample.labels}


async def _pinned(admin: AdminClient) -> list[Mapping[str, Any]]:
    rows: list[Mapping[str, Any]] = (await asyncio.to_thread(admin.get, "/pinned"))["topics"]
    return rows


def _admin(hub: Hub) -> AdminClient:
    return AdminClient(f"127.0.0.1:{hub.admin_port}")


async def test_what_the_log_of_a_hub_does_and_who_keeps_it_large(deployment: Deployment) -> None:
    """One topic has a subscriber that is away: in the log of a hub that is killed, and in that of the next."""
    dead = deployment.apart()
    await asyncio.to_thread(dead.start)
    client = await deployment.connect(dead)
    await client.subscribed(_LATE, b"away")
    await client.close_subscription(_LATE, b"away")
    await client.publish_many(_LATE, *[_BODY] * 200)
    dead.kill()

    deployment.write_logs(segment_bytes=32 << 10, segment_s=0.5, roll_pause_s=0.0)
    hub = await deployment.start(admin_port=0)
    admin = _admin(hub)
    client = await deployment.connect(hub)

    async def is_claimed() -> bool:
        await deployment.ask(client, _LATE)
        return hub.topics.get(Topic(_LATE)) is not None

    await eventually(is_claimed, "the dead hub's topic is taken over")
    before = await _metrics(admin)
    assert before["hedwig_hub_log_recovery_seconds_count"] == 1
    assert before["hedwig_hub_log_recovery_seconds_sum"] > 0
    (row,) = await _pinned(admin)
    assert (row["topic"], row["first_id"], row["last_id"]) == ("late", 1, 200)
    assert row["bytes"] == row["estimated_bytes"] >= 200 * len(_BODY)

    await client.publish_many(b"fast", *[_BODY] * 20)
    await client.publish_many(_LATE, *[_BODY] * 100)

    async def is_sealed() -> bool:
        return sum(each.records for each in (await deployment.log_of(hub)).segments) == 120

    await eventually(is_sealed, "the segments of all messages are sealed")
    after = await _metrics(admin)
    assert after["hedwig_hub_log_records_total"] == 120
    assert 0 < after["hedwig_hub_log_batches_total"] <= 120
    assert after["hedwig_hub_log_batch_bytes_total"] > 120 * len(_BODY)
    assert after["hedwig_hub_log_roll_seconds_count"] >= 1
    assert after["hedwig_hub_ledger_store_segments"] >= 2
    assert after["hedwig_hub_ledger_store_live_bytes"] == after["hedwig_hub_ledger_store_stored_bytes"]
    assert after["hedwig_hub_ledger_store_live_bytes"] > 120 * len(_BODY)
    rows = await _pinned(admin)
    assert rows[0]["topic"] == "late"
    assert rows[0]["bytes"] > rows[0]["estimated_bytes"] == row["bytes"]
