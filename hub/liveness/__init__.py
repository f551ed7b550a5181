"""Liveness by ZooKeeper: this hub's own right to serve, and which incarnations of other hubs are alive."""

from hedwig.hub.liveness.cluster import ClusterLiveness
from hedwig.hub.liveness.directory import read_hubs
from hedwig.hub.liveness.live_hub import DRAINING_LOAD, LiveHub
from hedwig.hub.liveness.options import LivenessOptions
from hedwig.hub.liveness.placement import Placement
from hedwig.hub.liveness.registration import Registration

__all__ = [
    "DRAINING_LOAD",
    "ClusterLiveness",
    "LiveHub",
    "LivenessOptions",
    "Placement",
    "Registration",
    "read_hubs",
]
