"""Prove that a job and its tasks reach a store that serves nobody without the stores file."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hedwig.cli.dev import DevServers
from hedwig.metadata import StoreOptions, format_metadata, open_metadata
from hedwig.model import LedgerRanges, Topic
from hedwig.store_access import STORES_FILE
from hedwig.versions import NEW
from tests.support.checkout import CHECKOUT
from tests.support.servers import UNSYNCED

_TOPICS = 100
_DEADLINE_S = 600


@pytest.mark.full
async def test_snapshot_of_a_secure_store(tmp_path: Path) -> None:
    servers = DevServers(tmp_path / "servers", **UNSYNCED)
    try:
        servers.up(["zookeeper"], secure=True)
        url, file = f"zookeeper://{servers.address('zookeeper')}/hedwig/eu", str(servers.stores_file)
        await format_metadata(url, StoreOptions(stores_file=file))
        async with await open_metadata(url, StoreOptions(stores_file=file)) as store:
            for number in range(_TOPICS):
                await store.persistence.write(Topic(b"%d" % number), LedgerRanges(), NEW)
        ran = _snapshot(url, tmp_path / "with", tmp_path, file)
        assert ran.returncode == 0, ran.stderr
        assert json.loads(ran.stdout)["tables"]["ledgers"] == _TOPICS
        ran = _snapshot(url, tmp_path / "without", tmp_path, "")
        assert ran.returncode == 6, ran.stderr
        assert "no ZooKeeper at" in ran.stderr
    finally:
        servers.down()


def _snapshot(url: str, folder: Path, directory: Path, stores_file: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "hedwig.pipeline", "snapshot", url, str(folder), "--timeout", "10", "--json"]
    return subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), STORES_FILE: stores_file},
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
        check=False,
    )
