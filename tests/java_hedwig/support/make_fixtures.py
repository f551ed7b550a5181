"""Make java-hedwig-4.3.2.json anew with the real original.

    .venv/bin/python -m tests.java_hedwig.support.make_fixtures

It needs Java and Maven, and takes about a minute. Everything but ids, ports and times comes out the same each time.
"""

import os
import re
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from hedwig.cli.dev import DevServers
from tests.java_hedwig.support.fixture import FIXTURE_PATH, write_fixture
from tests.java_hedwig.support.scenario import play
from tests.java_hedwig.support.stack import HUB_PROPERTIES, REGION_PATH, JavaStack

__all__ = ["main"]

_NAMED_JARS = ("bookkeeper-server", "hedwig-client", "hedwig-protocol", "hedwig-server", "protobuf-java", "zookeeper")


def main() -> None:
    """Start the servers, let them work, dump the nodes that they wrote, and end them."""
    with tempfile.TemporaryDirectory(prefix="java-hedwig-") as scratch, JavaStack(Path(scratch, "s"), print) as stack:
        stages = play(stack)
        header = {
            "made_by": "python -m tests.java_hedwig.support.make_fixtures",
            "made_on": f"{datetime.now(UTC):%Y-%m-%d}",
            "jars_of_the_hub": _versions(stack.servers, "hedwig43"),
            "zookeeper_server": _versions(stack.servers, "zookeeper")["zookeeper"],
            "java": _java_version(stack.servers),
            "root": REGION_PATH,
            "hub_properties": HUB_PROPERTIES,
            "reading": "path below root; data in hex; czxid, data version and kind as they were; topics: what the hub "
            "was asked for, and what its own console said at the moment of the dump",
        }
    write_fixture(header, stages)
    print(f"wrote {FIXTURE_PATH.name}: " + ", ".join(f"{len(one.nodes)} nodes with {one.name}" for one in stages))


def _versions(servers: DevServers, which: str) -> dict[str, str]:
    names = (Path(jar).stem for jar in servers.classpath(which).split(os.pathsep))
    matches = (re.fullmatch(r"(.+?)-(\d[\w.-]*)", name) for name in names)
    versions = {match[1]: match[2] for match in matches if match}
    return {name: versions[name] for name in _NAMED_JARS if name in versions}


def _java_version(servers: DevServers) -> str:
    java = servers.java_command("hedwig43", "unused", [])[0]
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True, timeout=60).stderr
    return said.splitlines()[0]


if __name__ == "__main__":
    main()
