"""Prove that the last release without shared logs refuses a store in which there may be some, in one clear line."""

import asyncio
from pathlib import Path

import pytest

from hedwig.exit_codes import ExitCode
from hedwig.metadata.contract.layout import FORMAT_MAJOR, SHARED_LOGS_MAJOR
from hedwig.metadata.logs.format import lower_format, raise_format
from hedwig.metadata.testing.clients import Clients
from hedwig.metadata.testing.subject import Subject
from tests.cli.support.admin import Admin, Ran
from tests.hub.support.running import RunningHub


@pytest.mark.full
async def test_older_release_refuses_a_store_with_shared_logs(
    kept_subject: Subject, clients: Clients, before_shared_logs: dict[str, str], tmp_path: Path
) -> None:
    store = await clients.open(kept_subject)
    admin, installed = Admin(tmp_path, kept_subject.url), before_shared_logs["PYTHONPATH"]
    hub = RunningHub(tmp_path / "hub", f"metadata={kept_subject.url}", environment=before_shared_logs)

    async def check() -> Ran:
        return await asyncio.to_thread(lambda: admin.run_apart("metadata", "check", PYTHONPATH=installed))

    assert (await check()).code == ExitCode.DONE
    await raise_format(store)
    hub.begin()
    checked = await check()
    assert (checked.code, await asyncio.to_thread(hub.wait)) == (ExitCode.NOT_FOUND, ExitCode.FAILED)
    for line in (checked.err, hub.log.splitlines()[-1]):
        assert line.startswith("error: ")
        assert f"has format {SHARED_LOGS_MAJOR}.0" in line
        assert f"this software reads format {FORMAT_MAJOR}; the store is newer: upgrade this software" in line
    assert await lower_format(store)
    assert (await check()).code == ExitCode.DONE
