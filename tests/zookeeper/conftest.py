"""A ZooKeeper with a TLS port."""

from collections.abc import Iterator

import pytest

from tests.zookeeper.support.locked_server import LockedServer


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockedServer]:
    server = LockedServer(tmp_path_factory.mktemp("locked"))
    try:
        yield server
    finally:
        server.launcher.down()
