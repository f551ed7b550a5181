"""Where rows come from: the version of a record has a meaning only in the store that it was read from.

The versions in two stores of one kind may even be equal: they are in two ZooKeeper ensembles that were filled in the
same order. So a current version is not enough. A job that replaces records must check that the store is the same.
"""

import os
from typing import Final

from hedwig.errors import ConfigurationError
from hedwig.exit_codes import ExitCode
from hedwig.metadata import MetadataUrl
from hedwig.pipeline.errors import JobError
from hedwig.pipeline.frames.policies import Policy

__all__ = ["check_origin", "is_same_store"]

_PORTS: Final = {"zookeeper": 2181, "hbase": 2181, "hbase+thrift": 9090}


def check_origin(policy: str, source: str, url: str) -> None:
    """Raise JobError if rows from the store at `source` would replace records of another store at `url`."""
    if policy != Policy.REPLACE or is_same_store(source, url):
        return
    raise JobError(
        f"these versions belong to {source}, so rows can replace records only there. Write into {url} with "
        f"--policy {Policy.CREATE}. If this is the same store, give its URL as in the snapshot",
        ExitCode.USAGE,
    )


def is_same_store(one: str, other: str) -> bool:
    """Say whether two URLs name the same store, as far as the URLs tell.

    Options and the order of hosts do not count, and one host in common is enough. Two names of one host count as two
    hosts.
    """
    try:
        first, second = MetadataUrl.parse(one), MetadataUrl.parse(other)
        return (
            first.family == second.family
            and _path(first) == _path(second)
            and (first.family == "sqlite" or bool(_hosts(first) & _hosts(second)))
        )
    except ConfigurationError:
        return False  # The source of the rows is no store at all.


def _path(url: MetadataUrl) -> str:
    if url.scheme == "sqlite":
        return os.path.realpath(url.file)
    return "/".join(filter(None, url.path.split("/")))


def _hosts(url: MetadataUrl) -> frozenset[tuple[str, int]]:
    port = _PORTS.get(url.scheme)
    if port is None:
        return frozenset({(url.hosts, 0)})
    return frozenset((host.lower(), number) for host, number in url.endpoints(port))
