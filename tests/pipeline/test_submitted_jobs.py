"""Jobs on a cluster as docs/how-to/pipeline.md describes them: spark-submit, code in a zip, and a packed environment.

The commands that pack both are those of the document.
"""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any, Final

import pyspark
import pytest

from hedwig.metadata import StoreOptions, format_metadata
from tests.pipeline.support.hub_on_bookies import hub_on_bookies
from tests.pipeline.support.standalone_cluster import StandaloneCluster
from tests.support.checkout import CHECKOUT
from tests.support.servers import RunningServers

DOCUMENT: Final = CHECKOUT / "docs" / "how-to" / "pipeline.md"
SUBMIT: Final = Path(pyspark.__file__).parent / "bin" / "spark-submit"
JOB_S: Final = 900.0
PACK_S: Final = 900.0
TOPICS: Final = 2_000
SUBSCRIPTIONS: Final = 4_000

pytestmark = [pytest.mark.full, pytest.mark.timeout(7200)]


def _documented(first: str) -> str:
    """Return the command of the document that begins with this text, with its continuation lines."""
    lines = iter(DOCUMENT.read_text().splitlines())
    for line in lines:
        if line.strip().startswith(first):
            command = line.strip()
            while command.endswith("\\"):
                command = command[:-1] + next(lines).strip()
            return command
    raise AssertionError(f"{DOCUMENT} has no command that begins {first!r}")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout after the commands of the document: it has hedwig.zip, env and env.tar.gz."""
    folder = tmp_path_factory.mktemp("checkout")
    for package in ("hedwig", "pyspark_hedwig"):
        shutil.copytree(CHECKOUT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__", "results"))
    commands = [
        _documented("python3.11 -m zipfile"),
        _documented("python3.11 -m venv"),
        _documented("tar czf env.tar.gz"),
    ]
    for command in commands:
        # The workers use the release of Python that runs the tests.
        line = re.sub(r"\bpython3\.11\b", sys.executable, command)
        subprocess.run(["bash", "-ec", line], cwd=folder, check=True, timeout=PACK_S, capture_output=True)
    return folder


def _submit(cluster: StandaloneCluster, checkout: Path, *arguments: str) -> Any:
    """Run a job as the document says, and return its result."""
    command: list[str | Path] = [
        SUBMIT,
        "--master",
        cluster.url,
        "--py-files",
        "hedwig.zip",
        "--archives",
        "env.tar.gz#env",
    ]
    settings = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false"}
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    environment = os.environ | {"PYSPARK_DRIVER_PYTHON": sys.executable, "PYSPARK_PYTHON": "./env/bin/python"}
    ran = subprocess.run(
        [*command, "hedwig/pipeline/__main__.py", *arguments, "--json"],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        timeout=JOB_S,
        check=False,
    )
    assert ran.returncode == 0, f"{arguments}: {ran.stdout[-2000:]}{ran.stderr[-2000:]}"
    # Both of our streams arrive as standard output, and hold the result alone.
    return json.loads(ran.stdout)


def test_metadata_goes_through_every_job_on_a_cluster(
    cluster: StandaloneCluster, checkout: Path, servers: RunningServers, tmp_path: Path
) -> None:
    name, zookeeper = uuid.uuid4().hex[:12], servers.address("zookeeper")
    first, second = (f"zookeeper://{zookeeper}/hedwig/{name}-{number}" for number in (1, 2))
    for url in (first, second):
        asyncio.run(format_metadata(url, StoreOptions(operation_timeout_s=60)))
    made, taken = str(tmp_path / "made"), str(tmp_path / "taken")
    rows = TOPICS + SUBSCRIPTIONS
    size = ("--topics", str(TOPICS), "--subscriptions", str(SUBSCRIPTIONS))
    assert _submit(cluster, checkout, "generate", made, *size)["rows"] == rows
    loaded = _submit(cluster, checkout, "load", first, "--from", made)
    assert sum(table["created"] for table in loaded["tables"].values()) == rows
    assert _submit(cluster, checkout, "snapshot", first, taken)["rows"] == rows
    audited = _submit(cluster, checkout, "audit", taken, str(tmp_path / "audit"))
    assert sum(audited["findings"].values()) == 0
    restored = _submit(cluster, checkout, "restore", taken, second)
    assert restored["rows"] == rows
    assert restored["verified"]
    _submit(cluster, checkout, "diff", taken, second)  # It fails if anything differs.
    third = f"zookeeper://{zookeeper}/hedwig/{name}-3"
    asyncio.run(format_metadata(third, StoreOptions(operation_timeout_s=60)))
    migrated = _submit(cluster, checkout, "migrate", second, third, "--through", str(tmp_path / "through"))
    assert (migrated["rows"], migrated["verified"]) == (rows, True)


def test_an_audit_on_a_cluster_asks_hubs_and_bookies(
    cluster: StandaloneCluster, checkout: Path, servers: RunningServers, tmp_path: Path
) -> None:
    with hub_on_bookies(servers, tmp_path / "hub", {b"eu/news": 9, b"us/news": 1}, reader=b"eu/news") as hub:
        given = ("--cluster", hub.url, "--bookkeeper", hub.bookkeeper)
        with hub.orphan(b"eu/news"):
            audit = _submit(cluster, checkout, "audit", hub.url, str(tmp_path / "audit"), *given)
    assert audit["rows"]["owned topics"] == 2
    assert [each["is_alive"] for each in audit["hubs"]] == [True]
    assert audit["open_ledgers"] == {"open": 2, "told": 2, "untold": []}, "the tasks have asked the bookies"
    assert [(each["topic"], each["end_from"]) for each in audit["backlogs"]] == [("eu/news", "ledger")]
    assert {kind: count for kind, count in audit["findings"].items() if count} == {"orphan-ledger": 1}
    assert audit["unchecked"] == {}
