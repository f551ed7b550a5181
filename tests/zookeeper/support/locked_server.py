"""A ZooKeeper that also has a TLS port, on which it asks clients for a certificate of its authority."""

import random
import time
from pathlib import Path
from typing import Final

from hedwig.cli.dev import DevServers
from hedwig.cli.dev.ports import LOOPBACK, choose_port
from hedwig.cli.dev.servers.tls import zookeeper_tls
from tests.hub.support.tls_client import Authority
from tests.support.servers import UNSYNCED

__all__ = ["LOGIN", "LockedServer"]

LOGIN: Final = "hedwig:a-canary-of-a-password"
_NAME: Final = "zookeeper-1"


class LockedServer:
    """The server, its authority, and stores files for it."""

    def __init__(self, directory: Path, *services: str) -> None:
        """Start it, and `services` that use its port without TLS."""
        self.authority = Authority(directory / "authority")
        tls_port = choose_port((), random.Random())
        self.authority.sign("server", address=LOOPBACK)
        secure = {name: str(each) for name, each in zookeeper_tls(self.authority.certificate.parent, tls_port).items()}
        properties = {**UNSYNCED["zookeeper_properties"], **secure}
        self._directory = directory
        self.launcher = DevServers(directory / "servers", zookeeper_properties=properties)
        self.launcher.up(["zookeeper", *services])
        self.plain = self.launcher.address("zookeeper")
        """host:port without TLS."""
        self.secure = f"{LOOPBACK}:{tls_port}"
        """host:port with TLS."""

    def stores_file(
        self, *logins: str, new_nodes: str = "closed", trusted: Authority | None = None, shown: str | None = "hub"
    ) -> str:
        """Write a stores file; return its path.

        Sessions trust servers of an authority, and show a certificate of that name; without one they speak no TLS.
        """
        lines = ["[zookeeper]", f"logins = {list(logins)!r}", f'new_nodes = "{new_nodes}"']
        if trusted is not None:
            lines.append(f'tls_ca = "{trusted.certificate}"')
            if shown is not None:
                lines.append(f'tls_certificate = "{self.authority.sign(shown)}"')
        path = self._directory / f"stores-{time.monotonic_ns()}.toml"
        path.write_text("\n".join(lines) + "\n")
        return str(path)

    def restart(self) -> None:
        """Kill the server, and start it again."""
        self.launcher.kill(_NAME)
        self.launcher.start(_NAME)
