"""Prove that the error of a call that waited for a silent server names that server.

An operator with an error of this kind first looks at that server.
"""

import asyncio
from typing import Any, Final

import pytest

from hedwig.errors import MetadataUnavailableError, UncertainStateError
from hedwig.metadata import StoreOptions
from hedwig.metadata.testing.clients import Clients, Names
from hedwig.metadata.testing.subject import Subject
from hedwig.model import LedgerRanges, Topic
from hedwig.versions import NEW
from tests.faults.support.network import NETWORKED, Networked
from tests.support.servers import RunningServers

SILENT: Final = {"zookeeper": "zookeeper-1", "hbase": "regionserver-1", "hbase+thrift": "thrift2"}
"""The server that the test pauses, by backend."""


@pytest.fixture(scope="session", params=[row for row in NETWORKED if row.label in SILENT], ids=lambda row: row.label)
def networked(request: pytest.FixtureRequest) -> Any:
    """The backends on the servers that all tests share."""
    return request.param


async def test_every_error_names_the_server_that_was_silent(
    networked: Networked, networked_subject: Subject, faulty_servers: RunningServers, clients: Clients, names: Names
) -> None:
    """In the first round requests were sent. In later ones some wait for a connection, or for the region of a row."""
    launcher = faulty_servers.launcher
    store = await clients.open(networked_subject, StoreOptions(operation_timeout_s=1.0))
    ranges = store.persistence
    topics = [Topic(names(b"%d" % number)) for number in range(64)]
    absent = [Topic(names(b"absent-%d" % number)) for number in range(64)]
    versions = await asyncio.gather(*(ranges.write(topic, LedgerRanges(), NEW) for topic in topics))
    ports = {server.port for server in launcher.status()}
    outcomes: list[Any] = []
    await asyncio.to_thread(launcher.pause, SILENT[networked.label])
    for _ in range(3):
        outcomes += await asyncio.gather(
            *(ranges.read(topic) for topic in topics),
            *(ranges.write(topic, LedgerRanges(), NEW) for topic in absent),
            *(ranges.write(topic, LedgerRanges(), version) for topic, version in zip(topics, versions, strict=True)),
            *(ranges.delete(topic, version) for topic, version in zip(topics, versions, strict=True)),
            return_exceptions=True,
        )
    # A server may still answer requests that it had begun when it was paused.
    errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert len(errors) > len(outcomes) / 2
    assert {type(error) for error in errors} == {UncertainStateError, MetadataUnavailableError}
    said = {str(error) for error in errors}
    assert {each for each in said if not any(f":{port}" in each for port in ports)} == set()
