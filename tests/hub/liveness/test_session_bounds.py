"""Prove that a hub uses the session timeout that ZooKeeper grants, and logs it if it is not the configured one."""

import pytest

from tests.hub.liveness.support.hubs import SESSION_S, Hubs


async def test_session_beyond_the_bounds_of_the_servers_is_said_once(
    hubs: Hubs, caplog: pytest.LogCaptureFixture
) -> None:
    member = await hubs.start(1, session_timeout_s=1000.0)
    (said,) = [record.getMessage() for record in caplog.records if "session_timeout_s" in record.getMessage()]
    assert "killed hub for 60 s, not for session_timeout_s, 1000 s" in said
    (registration,) = member.registered
    assert registration.remaining_s <= 60.0


async def test_session_within_them_is_not_worth_a_word(hubs: Hubs, caplog: pytest.LogCaptureFixture) -> None:
    await hubs.start(1, session_timeout_s=SESSION_S)
    assert not [record for record in caplog.records if "session_timeout_s" in record.getMessage()]
