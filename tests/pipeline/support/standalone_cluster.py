"""A standalone Spark cluster on this machine: a master and two workers, each worker at an address of its own.

Spark starts the second attempt of a slow task only on another host, so the workers are at 127.0.0.1 and 127.0.0.2.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyspark

__all__ = ["StandaloneCluster", "standalone_cluster"]

_HOSTS: Final = ("127.0.0.1", "127.0.0.2")
_START_S: Final = 90.0
_END_S: Final = 20.0
_SPARK_HOME: Final = Path(pyspark.__file__).parent
_MASTER: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_PAGE: Final = re.compile(r"MasterWebUI.* at (http://\S+)")
_EXECUTOR: Final = "CoarseGrainedExecutorBackend"


class StandaloneCluster:
    """A running cluster. `url` is that of its master."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._daemons: list[subprocess.Popen[bytes]] = []
        self.url = ""

    def start(self) -> None:
        """Start the master and the workers, and wait until the master knows them."""
        self._daemon("master", "127.0.0.1", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1")
        self.url = self._said("master", _MASTER)
        page = self._said("master", _PAGE)
        for host in _HOSTS:
            size = ("--cores", "1", "--memory", "1g", "--work-dir", str(self._directory / f"work-{host}"))
            self._daemon(
                f"worker-{host}", host, "org.apache.spark.deploy.worker.Worker", "--host", host, *size, self.url
            )
        deadline = time.monotonic() + _START_S
        while self._alive_workers(page) < len(_HOSTS):
            assert time.monotonic() < deadline, f"the workers did not come up: see {self._directory}"
            time.sleep(0.2)

    def executors(self, host: str) -> list[int]:
        """Return the processes that run tasks for the worker at `host`."""
        pids = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if any(_EXECUTOR in word for word in words) and f"spark://Worker@{host}" in " ".join(words):
                pid = int(path.parent.name)
                if self._is_ours(pid):
                    pids.append(pid)
        return pids

    def stop(self) -> None:
        """End the cluster, with its executors."""
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in self._daemons:
            try:
                daemon.wait(_END_S)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        for pid in [pid for host in _HOSTS for pid in self.executors(host)]:
            os.kill(pid, signal.SIGKILL)

    def _daemon(self, name: str, host: str, main: str, *arguments: str) -> None:
        environment = os.environ | {
            "SPARK_HOME": str(_SPARK_HOME),
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"-XX:+UseSerialGC {os.environ['SPARK_SUBMIT_OPTS']}",
            "SPARK_NO_DAEMONIZE": "1",
            "PYSPARK_PYTHON": sys.executable,
        }
        command = [str(_SPARK_HOME / "bin" / "spark-class"), main, "--port", "0", "--webui-port", "0", *arguments]
        with self._log(name).open("wb") as log:
            self._daemons.append(
                subprocess.Popen(command, env=environment, cwd=self._directory, stdout=log, stderr=log)
            )

    def _log(self, name: str) -> Path:
        return self._directory / f"{name}.log"

    def _said(self, name: str, pattern: re.Pattern[str]) -> str:
        deadline = time.monotonic() + _START_S
        while (match := pattern.search(self._log(name).read_text())) is None:
            assert time.monotonic() < deadline, f"{name} did not come up: {self._log(name).read_text()[-2000:]}"
            time.sleep(0.1)
        return match[1]

    def _alive_workers(self, page: str) -> int:
        with urllib.request.urlopen(f"{page}/json/", timeout=10) as answer:
            return int(json.load(answer)["aliveworkers"])

    def _is_ours(self, pid: int) -> bool:
        """Return whether a process works in a folder of this cluster: another test process may run a cluster, too."""
        try:
            return Path(f"/proc/{pid}/cwd").resolve().is_relative_to(self._directory)
        except OSError:
            return False


@contextmanager
def standalone_cluster(directory: Path) -> Iterator[StandaloneCluster]:
    """Run a cluster with its logs and scratch files in `directory`."""
    cluster = StandaloneCluster(directory)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
