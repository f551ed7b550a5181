"""Prove that a defect in the tasks that register a hub or watch other hubs is reported: the hub stops serving soon."""

import asyncio

import pytest

from hedwig.errors import ServiceDownError
from tests.faults.support.waiting import until
from tests.hub.liveness.support.hubs import Hubs


class _Defect:
    """Every call to it fails with an unexpected error, or as if it were cancelled."""

    def __init__(self, error: type[BaseException]) -> None:
        self._error = error

    async def __call__(self, *_: object) -> None:
        raise self._error


@pytest.mark.parametrize("error", [RuntimeError, asyncio.CancelledError])
async def test_registration_that_cannot_go_on_is_told(
    hubs: Hubs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: type[BaseException]
) -> None:
    member = await hubs.start(1)
    monkeypatch.setattr(member.liveness, "_beat", _Defect(error))
    await until(lambda: member.failed, "it is told")
    assert member.failed == ["registering this hub ended; the log says why"]
    assert error.__name__ in caplog.text or error is asyncio.CancelledError
    await member.liveness.close()
    assert len(member.failed) == 1


@pytest.mark.parametrize("error", [RuntimeError, asyncio.CancelledError])
async def test_start_that_meets_a_defect_ends_at_once(
    hubs: Hubs, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    member = hubs.make(1, start_timeout_s=3600.0)
    monkeypatch.setattr(member.liveness, "_register", _Defect(error))
    with pytest.raises(ServiceDownError, match="registering this hub ended"):
        await member.liveness.start()


@pytest.mark.parametrize("error", [RuntimeError, asyncio.CancelledError])
async def test_live_set_that_cannot_go_on_is_told(
    hubs: Hubs, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    member = await hubs.start(1)
    monkeypatch.setattr("hedwig.hub.liveness.live_set.read_hosts", _Defect(error))
    await until(lambda: member.failed, "it is told")
    assert member.failed == ["following the live hubs ended; the log says why"]
    assert member.liveness.is_proven(), "until it is closed, it may finish what it has begun"


async def test_end_in_order_is_no_defect(hubs: Hubs) -> None:
    member = await hubs.start(1)
    await member.liveness.close()
    await member.liveness.close()
    assert member.failed == []
