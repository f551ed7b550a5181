"""What hubs of the original's releases 4.0.0 and 4.1.0 kept in ZooKeeper: one checked-in JSON file, and how it is made.

    .venv/bin/python -m tests.java_hedwig.older_releases

makes it anew. That needs Java and Maven, and takes about a minute. What a hub was asked for is beside its nodes.
"""

import importlib.resources
import json
import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hedwig.cli.dev.ports import choose_port
from hedwig.cli.dev.servers.java import find_java, jvm_flags
from hedwig.cli.dev.servers.log4j import write_log4j
from tests.java_hedwig.hub_client import HubClient
from tests.java_hedwig.stack import REGION_PATH, JavaStack, eventually
from tests.java_hedwig.znodes import Znode, read_tree

__all__ = ["RELEASES", "OlderStore", "read_older_stores"]

RELEASES: Final = ("4.0.0", "4.1.0")
_FILE: Final = Path(__file__).with_name("java-hedwig-4.0-4.1.json")
_PROGRAM: Final = Path(__file__).with_name("OlderLoopbackHub.java")
_BOUND: Final = 5
_MAVEN_S: Final = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class OlderStore:
    """What one release left: the nodes below /hedwig/standalone, and of each subscription its pointer and bound."""

    release: str
    nodes: tuple[Znode, ...]
    subscriptions: dict[tuple[str, str], tuple[int, int | None]]


def read_older_stores() -> list[OlderStore]:
    """Read the file."""
    return [
        OlderStore(
            release=shown["release"],
            nodes=tuple(
                Znode(
                    path=node["path"],
                    data=bytes.fromhex(node["hex"]),
                    czxid=node["czxid"],
                    version=node["version"],
                    ephemeral=node["ephemeral"],
                )
                for node in shown["nodes"]
            ),
            subscriptions={
                (topic, subscriber): (consumed, bound) for topic, subscriber, consumed, bound in shown["subscriptions"]
            },
        )
        for shown in json.loads(_FILE.read_text())["releases"]
    ]


def main() -> None:
    """Have a hub of each release work, and dump what it wrote."""
    stores = [_play(release) for release in RELEASES]
    lines = ["{", ' "made_by": "python -m tests.java_hedwig.older_releases",', ' "releases": [']
    for store in stores:
        lines += ["  {", f'   "release": {json.dumps(store["release"])},', '   "subscriptions": [']
        lines += [",\n".join(f"    {_row(one)}" for one in store["subscriptions"]), "   ],", '   "nodes": [']
        lines += [",\n".join(f"    {_row(one)}" for one in store["nodes"]), "   ]"]
        lines.append("  }" if store is stores[-1] else "  },")
    _FILE.write_text("\n".join([*lines, " ]", "}"]) + "\n")


def _play(release: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="java-hedwig-") as scratch, JavaStack(Path(scratch, "s")) as stack:
        stack.start_stores()
        with stack.znodes() as raw:
            # Its client of that time cannot read what the bookie has noted of the layout of ledgers, and notes its own.
            raw.delete("/ledgers/LAYOUT")
            raw.ensure_path("/hedwig")
        with _hub(release, stack, Path(scratch)) as port:
            subscriptions = _work(release, port)
        with stack.znodes() as raw:
            hosts = f"{REGION_PATH}/hosts"
            eventually("the session of the hub has ended", lambda: not raw.get_children(hosts))
            nodes = [
                {"path": n.path, "hex": n.data.hex(), "czxid": n.czxid, "version": n.version, "ephemeral": n.ephemeral}
                for n in read_tree(raw, REGION_PATH)
            ]
    return {"release": release, "subscriptions": subscriptions, "nodes": nodes}


def _work(release: str, port: int) -> list[tuple[str, str, int, int | None]]:
    """Let the hub write something of every kind; return topic, subscriber, pointer and bound of what it keeps."""
    with HubClient(port) as client:
        for number in range(3):
            client.publish(b"orders", b"%d" % number)
        client.subscribe(b"orders", b"late")
        client.subscribe("süß/été".encode(), "話す人".encode())
        client.publish("süß/été".encode(), b"one")
        client.subscribe(b"silent", b"listener")
    with HubClient(port) as client:
        client.subscribe(b"orders", b"reads")
        client.publish(b"orders", b"3")
        client.deliveries(1)
        client.consume(b"orders", b"reads", 4)
        # It answers no consume; what comes next on the connection is answered after it.
        client.publish(b"orders", b"4")
    kept: list[tuple[str, str, int, int | None]] = [
        ("orders", "late", 3, None),
        ("orders", "reads", 4, None),
        ("silent", "listener", 0, None),
        ("süß/été", "話す人", 0, None),
    ]
    if release != "4.0.0":
        with HubClient(port) as client:
            client.subscribe(b"orders", b"bounded", bound=_BOUND)
        kept.append(("orders", "bounded", 5, _BOUND))
    return sorted(kept)


@contextmanager
def _hub(release: str, stack: JavaStack, directory: Path) -> Iterator[int]:
    """Run a hub on loopback; yield its port."""
    port = choose_port((), random.Random())
    hosts = directory / "hosts"
    hosts.write_text(f"127.0.0.1 localhost {os.uname().nodename}\n")
    write_log4j(directory)
    settings = directory / "hub.conf"
    settings.write_text(
        f"zk_host={stack.zookeeper}\nzk_timeout=6000\nserver_port={port}\nssl_enabled=false\nregion=standalone\n"
        "bk_ensemble_size=1\nbk_quorum_size=1\nconsume_interval=1\n"
    )
    jars = f"{directory}{os.pathsep}{_jars(release, directory)}"
    with (directory / "hedwig.hub.logs.log").open("wb") as log:
        command = [find_java(), *jvm_flags(256, hosts), "-cp", jars, str(_PROGRAM), str(settings)]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:

        def answers() -> bool:
            assert process.poll() is None, (directory / "hedwig.hub.logs.log").read_text()[-3000:]
            try:
                HubClient(port).__exit__(None, None, None)
            except OSError:
                return False
            return True

        eventually(f"the hub of release {release} listens", answers)
        yield port
        process.terminate()
        process.wait(30)
    finally:
        process.kill()
        process.wait(30)


def _jars(release: str, directory: Path) -> str:
    """Return the class path of a release, by Maven and the pom of release 4.3.2."""
    maven = shutil.which("mvn")
    assert maven is not None, "Maven (mvn) is not installed"
    pom = importlib.resources.files("hedwig.cli.dev").joinpath("poms", "hedwig43.xml").read_text()
    (directory / "pom.xml").write_text(pom.replace("4.3.2", release))
    out = directory / "classpath"
    goal = ("dependency:build-classpath", f"-Dmdep.outputFile={out}", "-Dmdep.includeScope=runtime")
    subprocess.run([maven, "-B", "-q", *goal], cwd=directory, stdin=subprocess.DEVNULL, check=True, timeout=_MAVEN_S)
    return out.read_text().strip()


def _row(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    main()
