"""Prove that a migration or import ends in one clear line if its store stops answering, and continues afterwards."""

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from hedwig.exit_codes import ExitCode
from hedwig.metadata import open_metadata
from tests.cli.support.admin import DEADLINE_S, Admin, wait_until
from tests.cli.support.store_contents import contents, fill
from tests.support.servers import RunningServers

__all__: list[str] = []

pytestmark = pytest.mark.servers

TOPICS = 1500


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[RunningServers]:
    """A ZooKeeper of this test alone, so a pause disturbs nobody."""
    own = RunningServers(tmp_path / "servers")
    try:
        yield own
    finally:
        own.launcher.down()


def _records(url: str) -> int:
    async def count() -> int:
        async with await open_metadata(url) as store:
            return sum((await store.count()).values())

    return asyncio.run(count())


@pytest.mark.parametrize("command", ["migrate", pytest.param("import", marks=pytest.mark.full)])
def test_store_that_stops_answering_is_one_clear_line(
    command: str, zookeeper: RunningServers, admin: Admin, tmp_path: Path
) -> None:
    fill(admin.url, TOPICS)
    url = f"zookeeper://{zookeeper.address('zookeeper')}/hedwig/{uuid.uuid4().hex}"
    target = Admin(tmp_path, url)
    target.done("metadata", "format")
    file = str(tmp_path / "export.gz")
    admin.done("metadata", "export", file)
    given = {
        "migrate": ("metadata", "migrate", "--from", admin.url, "--to", url, "--hubs-down", "--yes"),
        "import": ("metadata", "import", file),
    }[command]
    # A busy machine may need some seconds for one request, and must not end the command before the pause.
    with target.start(*given, "--timeout", "10") as running:
        try:
            wait_until(lambda: _records(url) > TOPICS // 2, "records to arrive")
            zookeeper.launcher.pause("zookeeper-1")
            try:
                _, said = running.communicate(timeout=DEADLINE_S)
            finally:
                zookeeper.launcher.resume("zookeeper-1")
        finally:
            running.kill()
    assert running.returncode in (ExitCode.OUTCOME_UNKNOWN, ExitCode.UNAVAILABLE), said
    lines = said.decode().splitlines()
    assert any("give the same command again" in line for line in lines)
    assert lines[-1].startswith(f"error: metadata {command} failed: ")
    assert zookeeper.address("zookeeper") in lines[-1]
    target.done(*given)
    assert contents(url) == contents(admin.url, owners=False)
