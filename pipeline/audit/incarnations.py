"""Incarnations of hubs, each a start of a hub with its own epoch: as the option --hub names them, and as a frame."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from hedwig.errors import InvalidArgumentError
from hedwig.model import HubInfo

__all__ = ["hubs_frame", "named_hub"]

_NAMED: Final = re.compile(r"(?P<address>.+)@(?P<epoch>[0-9]+)")


def named_hub(text: str) -> HubInfo:
    """Return the hub that is written HOST:PORT[:SSLPORT]@EPOCH. Raises InvalidArgumentError."""
    match = _NAMED.fullmatch(text)
    if match is None:
        raise InvalidArgumentError(f"{text!r} is no incarnation of a hub; write HOST:PORT:SSLPORT@EPOCH")
    return HubInfo.at(match["address"], epoch=int(match["epoch"]))


def hubs_frame(spark: SparkSession, hubs: Iterable[HubInfo]) -> DataFrame:
    """Return hubs as a frame with the columns host, port, ssl_port and epoch."""
    rows: Sequence[tuple[str, int, int | None, str]] = [
        (hub.host, hub.port, hub.ssl_port, str(hub.epoch)) for hub in hubs
    ]
    frame = spark.createDataFrame(rows, "host string, port int, ssl_port int, epoch string")
    return frame.selectExpr("host", "port", "ssl_port", "cast(epoch as decimal(20,0)) as epoch")
