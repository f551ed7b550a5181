"""Prove that a hub may be named by its host alone where that says which hub it is."""

import pytest

from hedwig.errors import OperationError
from hedwig.exit_codes import ExitCode
from hedwig.hub.liveness import LiveHub
from hedwig.model import HubInfo
from hedwig.operations.deployment.cluster import pick_hub
from hedwig.operations.deployment.deployment import Deployment

LIVE = [LiveHub(HubInfo(host=host, port=port, epoch=1)) for host, port in (("one", 4080), ("two", 4080), ("two", 4090))]
CLUSTER = Deployment(command="hub show", timeout_s=1.0, cluster="zookeeper://zk:2181/hedwig/eu")


@pytest.mark.parametrize(("name", "address"), [("one", "one:4080"), ("one:4080", "one:4080"), ("two:4090", "two:4090")])
def test_host_alone_is_enough_where_one_hub_is_alive_on_it(name: str, address: str) -> None:
    assert pick_hub(CLUSTER, LIVE, name).info.name == address


def test_host_of_several_hubs_asks_which_one() -> None:
    with pytest.raises(OperationError, match="2 hubs are alive on two: give one of two:4080, two:4090") as refused:
        pick_hub(CLUSTER, LIVE, "two")
    assert refused.value.code == ExitCode.USAGE


@pytest.mark.parametrize("name", ["thr", "on", "one:4081", ""])
def test_others_are_not_there(name: str) -> None:
    with pytest.raises(OperationError, match="list the hubs with: hedwig-admin hub list") as refused:
        pick_hub(CLUSTER, LIVE, name)
    assert refused.value.code == ExitCode.NOT_FOUND
