"""Which hubs are alive, by ZooKeeper: this hub's own right to serve, and the other hubs' incarnations."""

from hub.liveness.cluster import ClusterLiveness
from hub.liveness.directory import read_hubs
from hub.liveness.live_hub import DRAINING_LOAD, LiveHub
from hub.liveness.options import LivenessOptions
from hub.liveness.placement import Placement
from hub.liveness.registration import Registration

__all__ = [
    "DRAINING_LOAD",
    "ClusterLiveness",
    "LiveHub",
    "LivenessOptions",
    "Placement",
    "Registration",
    "read_hubs",
]
