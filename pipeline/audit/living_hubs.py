"""Which hubs are alive, from the operator, from the ZooKeeper of a cluster, or from a standalone hub's registration."""

import asyncio
import re
from collections.abc import Iterable, Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from hedwig.clock import Deadline, SystemClock
from hedwig.errors import InvalidArgumentError, ServiceDownError
from hedwig.exit_codes import ExitCode
from hedwig.metadata import StoreOptions, open_metadata
from hedwig.model import HubInfo
from hedwig.operations.deployment.cluster import cluster_session
from hedwig.outcomes import NotAppliedError
from hedwig.pipeline.errors import JobError

__all__ = ["cluster_hubs", "hubs_frame", "named_hub", "standalone_hubs"]

_TIMEOUT_S: Final = 30.0
_NAMED: Final = re.compile(r"(?P<address>.+)@(?P<epoch>[0-9]+)")


def named_hub(text: str) -> HubInfo:
    """Return the hub that is written HOST:PORT[:SSLPORT]@EPOCH. Raises InvalidArgumentError."""
    match = _NAMED.fullmatch(text)
    if match is None:
        raise InvalidArgumentError(f"{text!r} is no incarnation of a hub; write HOST:PORT:SSLPORT@EPOCH")
    return HubInfo.at(match["address"], epoch=int(match["epoch"]))


def cluster_hubs(url: str, timeout_s: float = _TIMEOUT_S) -> list[HubInfo]:
    """Return the hubs that are alive in the cluster at `url`, such as zookeeper://host:2181/hedwig/REGION.

    Raises: ConfigurationError - `url` is no such URL, or the extra `zookeeper` is missing; JobError - ZooKeeper does
        not answer, or, NOT_FOUND, no hub was ever registered there.
    """

    async def living() -> list[HubInfo] | None:
        async with cluster_session(url, timeout_s) as (bridge, prefix):
            from hedwig.hub.liveness import read_hubs
            from hedwig.hub.liveness.asking import read
            from hedwig.hub.liveness.paths import HubPaths
            from hedwig.zookeeper import exists

            hubs = [hub.info for hub in await read_hubs(bridge, prefix, timeout_s=timeout_s)]
            if hubs:
                return hubs
            # If all hubs are down, the parent node of hubs exists and is empty.
            node = HubPaths(prefix).hosts
            deadline = Deadline.after(SystemClock(), timeout_s)
            return None if await read(bridge, deadline, f"look for {node}", exists(node)) is None else []

    try:
        hubs = asyncio.run(living())
    except (NotAppliedError, ServiceDownError) as exc:
        raise JobError(
            f"the cluster {url} does not answer: {exc}; see that ZooKeeper is up", ExitCode.UNAVAILABLE
        ) from exc
    if hubs is None:
        raise JobError(
            f"no hub was ever registered at {url}: give --cluster to the letter as the hubs have it in "
            "cluster.zookeeper",
            ExitCode.NOT_FOUND,
        )
    return hubs


def standalone_hubs(url: str, timeout_s: float = _TIMEOUT_S) -> list[HubInfo] | None:
    """Return the last start of the standalone hub of the store at `url`; None if the store has none.

    This does not ask whether the hub runs: an owner record of any earlier start is stale in both cases.
    """

    async def read() -> list[HubInfo] | None:
        async with await open_metadata(url, StoreOptions(operation_timeout_s=timeout_s)) as store:
            hub = await store.standalone_hub()
        return None if hub is None else [HubInfo.at(hub.address, epoch=hub.starts)]

    return asyncio.run(read())


def hubs_frame(spark: SparkSession, hubs: Iterable[HubInfo]) -> DataFrame:
    """Return hubs as a frame with the columns host, port, ssl_port and epoch."""
    rows: Sequence[tuple[str, int, int | None, str]] = [
        (hub.host, hub.port, hub.ssl_port, str(hub.epoch)) for hub in hubs
    ]
    frame = spark.createDataFrame(rows, "host string, port int, ssl_port int, epoch string")
    return frame.selectExpr("host", "port", "ssl_port", "cast(epoch as decimal(20,0)) as epoch")
