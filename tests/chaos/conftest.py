"""Fixtures of the chaos tests: servers of their own, since these tests harm them, and seeds."""

import os
import random
from collections.abc import Iterator
from typing import Final

import pytest

from hedwig.cli.dev import DevServers
from tests.faults.support.sickbay import heal

__all__: list[str] = []

SEED_VARIABLE: Final = "HEDWIG_FAULT_SEED"
_BOOKIES: Final = 3


@pytest.fixture(scope="package")
def servers_of_chaos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServers]:
    """ZooKeeper, HBase with one region server, and three bookies, for the tests of this folder."""
    launcher = DevServers(
        tmp_path_factory.mktemp("chaos") / "servers",
        # Here only processes die, not the machine, so the system keeps what they have written. With forced writes,
        # hundreds of topics taken over at once would measure the disk.
        zookeeper_properties={"forceSync": "no"},
        bookie_properties={"journalSyncData": "false"},
    )
    try:
        launcher.up(["hbase", "bookkeeper"], bookies=_BOOKIES)
        yield launcher
    finally:
        launcher.down()


@pytest.fixture
def stack(servers_of_chaos: DevServers) -> Iterator[DevServers]:
    """These servers, all of them healed after the test."""
    yield servers_of_chaos
    heal(servers_of_chaos)


@pytest.fixture(scope="session")
def seed() -> int:
    """The seed of this run's faults: that of the environment, else a new one."""
    return int(os.environ.get(SEED_VARIABLE) or random.SystemRandom().randrange(10**9))


@pytest.fixture
def source(seed: int, request: pytest.FixtureRequest) -> random.Random:
    """The source of this test's faults; a failed test shows how to get the same ones again."""
    print(f"repeat with {SEED_VARIABLE}={seed}")
    return random.Random(f"{seed} {request.node.name}")
