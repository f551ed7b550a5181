"""Where the nodes of hubs are, under the prefix of their deployment."""

from collections.abc import Iterator

__all__ = ["HubPaths"]


class HubPaths:
    """Paths under a prefix. The host nodes are the original's; the endpoint nodes are ours."""

    def __init__(self, prefix: str) -> None:
        self.hosts = f"{prefix}/hosts"
        self.endpoints = f"{prefix}/endpoints"

    def host(self, address: str) -> str:
        """Return the host node of the hub at `address` (host:port:sslport)."""
        return f"{self.hosts}/{address}"

    def endpoint(self, name: str) -> str:
        """Return the endpoint node of that name."""
        return f"{self.endpoints}/{name}"

    def endpoint_name(self, address: str, token: str) -> str:
        """Return the name of the endpoint node that one registration makes: never the same twice."""
        return f"{address}@{token}"

    def leaving(self, address: str, token: str) -> str:
        """Return the node by which a hub tells that it takes no topics from now on: it is no endpoint of any hub."""
        return f"{self.endpoints}/leaving-{token}@{address}"

    def is_endpoint_of(self, name: str, address: str) -> bool:
        """Say whether an endpoint node belongs to the hub at `address`."""
        return name.rpartition("@")[0] == address

    def above(self) -> Iterator[str]:
        """Yield the nodes that must be there before a hub can register, outermost first."""
        parts = self.hosts.split("/")[1:-1]
        for number in range(1, len(parts) + 1):
            yield "/" + "/".join(parts[:number])
        yield self.hosts
        yield self.endpoints
