"""Prove which incarnations of hubs count as alive where no server is asked: those of a standalone hub."""

from pathlib import Path

import pytest

from hedwig.errors import NoMetadataError, OperationError
from hedwig.exit_codes import ExitCode
from hedwig.metadata import MetadataStore
from hedwig.model import HubInfo
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.living_hubs import living_incarnations
from hedwig.operations.deployment.store import with_store_to_write


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return Deployment(command="audit", timeout_s=10.0, metadata=f"sqlite://{tmp_path}/store.db")


def test_last_start_of_the_standalone_hub_counts(deployment: Deployment) -> None:
    async def start_twice(store: MetadataStore) -> None:
        for _ in range(2):
            await store.register_standalone("hub", "one:4080")

    with_store_to_write(deployment, start_twice)
    assert living_incarnations(deployment) == [HubInfo.at("one:4080", epoch=2)]


def test_store_of_no_standalone_hub_says_nothing(deployment: Deployment) -> None:
    async def nothing(_: MetadataStore) -> None:
        """Only make the store."""

    with_store_to_write(deployment, nothing)
    assert living_incarnations(deployment) is None


def test_store_that_does_not_exist_is_not_made(deployment: Deployment, tmp_path: Path) -> None:
    with pytest.raises(NoMetadataError):
        living_incarnations(deployment)
    assert not (tmp_path / "store.db").exists()


def test_cluster_is_asked_in_place_of_the_store() -> None:
    with pytest.raises(OperationError, match="see that ZooKeeper is up there") as refused:
        living_incarnations(Deployment(command="audit", timeout_s=1.0, cluster="zookeeper://127.0.0.1:1/hedwig/eu"))
    assert refused.value.code is ExitCode.UNAVAILABLE
