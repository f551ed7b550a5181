"""Only its owner can read a hub's files, whatever the umask, and whatever files former releases left."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from hedwig.client import ClientOptions, HedwigClient, HubAddress
from hedwig.model import SubscriberId, Topic
from tests.hub.support.running import RunningHub

WITHOUT_UMASK: Final = ("sh", "-c", 'umask 000; exec "$@"', "sh")


def _modes(*directories: Path) -> dict[str, int]:
    """Return the rights of group and others for directories and all their files, by name."""
    everything = [path for directory in directories for path in (directory, *directory.rglob("*"))]
    return {path.name: path.stat().st_mode & 0o077 for path in everything}


async def _use(hub: RunningHub) -> None:
    async with HedwigClient(ClientOptions(hub=HubAddress("127.0.0.1", hub.port))) as client:
        subscription = await client.subscribe(Topic(b"news"), SubscriberId(b"reader"))
        await client.publish(Topic(b"news"), b"secret")
        await anext(subscription)
        await subscription.close()


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[RunningHub]:
    """Run a hub whose process removes no rights from files by its umask."""
    with RunningHub(tmp_path, "ledger_messages_max=2", launcher=WITHOUT_UMASK) as running:
        yield running


async def test_all_that_a_hub_makes_is_its_owners(hub: RunningHub) -> None:
    for _ in range(2):
        for _ in range(3):
            await _use(hub)
        modes = _modes(hub.data)
        assert {"metadata.db", "metadata.db-wal", "metadata.db-shm", "hub-id", "ledgers", "lock", "reserve"} <= {*modes}
        assert not any(modes.values()), modes
        hub.kill()
        hub.start()
    hub.stop()
    assert not any(_modes(hub.data).values())


async def test_a_data_directory_of_a_former_release_is_closed_at_the_start(hub: RunningHub) -> None:
    await _use(hub)
    hub.kill()
    for path in (hub.data, *hub.data.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    hub.start()
    await _use(hub)
    own = ("hub-id", "ledgers", "metadata.db", "metadata.db-wal", "metadata.db-shm")
    assert not any((hub.data / name).stat().st_mode & 0o077 for name in own)
    assert hub.data.stat().st_mode & 0o777 == 0o700
    assert f"closed {hub.data} to other users" in hub.log
    before = hub.log.count("closed ")
    hub.stop()
    hub.start()
    assert hub.log.count("closed ") == before


async def test_a_directory_with_other_things_is_left_to_those_who_use_it(tmp_path: Path) -> None:
    hub = RunningHub(tmp_path, launcher=WITHOUT_UMASK)
    hub.data.mkdir(mode=0o755)
    (hub.data / "page.html").touch(0o644)
    with hub:
        await _use(hub)
        modes = _modes(hub.data)
        assert modes.pop("data") == 0o055
        assert modes.pop("page.html") == 0o044
        assert not any(modes.values()), modes


async def test_the_file_of_a_store_elsewhere_keeps_the_mode_that_somebody_gave_it(tmp_path: Path) -> None:
    shared = tmp_path / "shared.db"
    with RunningHub(tmp_path, f"metadata=sqlite://{shared}", launcher=WITHOUT_UMASK) as hub:
        await _use(hub)
        files = [tmp_path / name for name in ("shared.db", "shared.db-wal", "shared.db-shm")]
        assert [path.stat().st_mode & 0o777 for path in files] == [0o600] * 3
        hub.stop()
        shared.chmod(0o660)
        hub.start()
        await _use(hub)
        assert [path.stat().st_mode & 0o777 for path in files] == [0o660] * 3
        hub.stop()
