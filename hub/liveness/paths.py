"""The paths of the nodes of hubs, under the prefix of their deployment."""

from collections.abc import Iterator

__all__ = ["HubPaths"]


class HubPaths:
    """Paths under a prefix. The host nodes are the original's; the endpoint nodes are ours."""

    def __init__(self, prefix: str) -> None:
        self.hosts = f"{prefix}/hosts"
        self.endpoints = f"{prefix}/endpoints"

    def host(self, address: str) -> str:
        """Return the path of the host node of the hub at `address` (host:port:sslport)."""
        return f"{self.hosts}/{address}"

    def endpoint(self, name: str) -> str:
        """Return the path of the endpoint node `name`."""
        return f"{self.endpoints}/{name}"

    def endpoint_name(self, address: str, token: str) -> str:
        """Return the name of the endpoint node of one registration, which never repeats."""
        return f"{address}@{token}"

    def leaving(self, address: str, token: str) -> str:
        """Return the path of the node by which a hub announces that it takes no more topics; it is no endpoint node."""
        return f"{self.endpoints}/leaving-{token}@{address}"

    def is_endpoint_of(self, name: str, address: str) -> bool:
        """Say whether an endpoint node belongs to the hub at `address`."""
        return name.rpartition("@")[0] == address

    def above(self) -> Iterator[str]:
        """Yield the nodes that must exist before a hub can register, outermost first."""
        parts = self.hosts.split("/")[1:-1]
        for number in range(1, len(parts) + 1):
            yield "/" + "/".join(parts[:number])
        yield self.hosts
        yield self.endpoints
