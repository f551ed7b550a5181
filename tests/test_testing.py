"""Prove that applications can test with a hub in their process: what the page says, its ends, and its errors."""

import asyncio
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

import pytest

from hedwig import BlockingClient
from hedwig.client import HedwigClient
from hedwig.errors import ConfigurationError, NoSuchTopicError
from hedwig.testing import HubInProcess
from tests.support.checkout import CHECKOUT

PAGE: Final = (CHECKOUT / "docs" / "how-to" / "testing.md").read_text()
PROGRAMS: Final = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PATIENCE_S: Final = 60.0


def _run(*arguments: str, cwd: Path) -> str:
    ran = subprocess.run(
        [sys.executable, "-W", "error", *arguments], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_the_fixture_is_there_once_the_package_is_installed(tmp_path: Path) -> None:
    (tmp_path / "test_greetings.py").write_text(PROGRAMS[0])
    assert "1 passed" in _run("-m", "pytest", "-p", "no:cacheprovider", "-p", "no:asyncio", "-W", "error", cwd=tmp_path)


def test_the_program_of_the_page_prints_what_it_says(tmp_path: Path) -> None:
    assert len(PROGRAMS) == 2
    (printed,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert _run("-c", PROGRAMS[1], cwd=tmp_path) == printed


def test_each_test_has_a_hub_of_its_own(hedwig_hub: HubInProcess) -> None:
    with HubInProcess() as other, BlockingClient(hedwig_hub.address) as client, BlockingClient(other.address) as second:
        assert client.publish("news", b"one").local == second.publish("news", b"one").local == 1


async def test_programs_with_asyncio_use_it_too(hedwig_hub: HubInProcess) -> None:
    async with (
        asyncio.timeout(PATIENCE_S),
        HedwigClient(hedwig_hub.address) as client,
        client.subscribe("news", "reader") as subscription,
    ):
        await client.publish("news", b"one")
        assert (await anext(subscription)).body == b"one"
        await asyncio.to_thread(hedwig_hub.stop)
        publishing = asyncio.create_task(client.publish("news", b"two"))
        await asyncio.to_thread(hedwig_hub.start)
        assert (await publishing).local == 2
        assert (await anext(subscription)).body == b"two"


def test_it_takes_options_of_the_hub() -> None:
    with (
        HubInProcess(non_durable_topics=("live/*",), non_durable_refuses_nobody=True) as hub,
        BlockingClient(hub.address) as client,
        pytest.raises(NoSuchTopicError),
    ):
        client.publish("live/news", b"nobody is there")
    with pytest.raises(ConfigurationError, match="topics_max"):
        HubInProcess(topics_max=-1)


def test_nothing_is_left_of_it(hedwig_hub: HubInProcess) -> None:
    before = threading.enumerate()
    with HubInProcess() as hub:
        assert hub.is_running
        assert hub._directory is not None
        folder = Path(hub._directory.name)
    assert not hub.is_running
    assert not folder.exists()
    taken = HubInProcess(port=int(hedwig_hub.address.rpartition(":")[2]))
    with pytest.raises(ConfigurationError, match=r"in use|taken"), taken:
        pass
    assert taken._directory is None
    with pytest.raises(RuntimeError, match="before it is started"):
        _ = HubInProcess().address
    assert threading.enumerate() == before
