"""Prove that `hub topics` lists what a hub owns, also a dead one, in pages that fit together."""

from pathlib import Path

import pytest

from hedwig.exit_codes import ExitCode
from hedwig.metadata import MetadataStore
from hedwig.model import HubInfo, LedgerRanges, Topic
from hedwig.names import parse_name
from hedwig.versions import NEW
from tests.cli.support.admin import Admin
from tests.pipeline.support.stores import new_store, with_store

_HUBS = [
    HubInfo.at("10.0.0.1:4080", epoch=7, log=3),
    HubInfo.at("10.0.0.1:4080:9876", epoch=8),
    HubInfo.at("10.0.0.1:4081", epoch=7),
]
_TOPICS = [b"t/%d \xff" % number for number in range(1200)]


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Admin:
    """hedwig-admin on a store in which two starts of a hub, and another hub, own a third of the topics each."""
    directory: Path = tmp_path_factory.mktemp("owned")
    url = new_store(directory)

    async def fill(store: MetadataStore) -> None:
        for number, name in enumerate(_TOPICS):
            await store.ownership.write(Topic(name), _HUBS[number % 3], NEW)
        await store.persistence.write(Topic(b"t/nobody's"), LedgerRanges(), NEW)

    with_store(url, fill)
    return Admin(directory, url)


@pytest.mark.parametrize("limit", [100, 400, 799, 800, 1000])
def test_pages_fit_together(admin: Admin, limit: int) -> None:
    rows, token = [], list[str]()
    while True:
        page = admin.done("hub", "topics", "10.0.0.1:4080", "-o", "json", "--limit", str(limit), *token).json
        rows += page["topics"]
        assert 0 < len(page["topics"]) <= limit
        if page["next_page_token"] is None:
            break
        assert len(page["topics"]) == limit
        token = ["--page-token", page["next_page_token"]]
    expected = {name: _HUBS[number % 3] for number, name in enumerate(_TOPICS) if number % 3 < 2}
    assert [parse_name(row["topic"]) for row in rows] == sorted(expected)
    for row in rows:
        owner = expected[parse_name(row["topic"])]
        assert (row["hub"], row["epoch"], row["log"]) == (owner.name, owner.epoch, owner.log)


def test_prefix_and_start(admin: Admin) -> None:
    rows = admin.done(
        "hub", "topics", "10.0.0.1:4081", "--prefix", "t/11", "--start-after", "t/1150", "-o", "ndjson"
    ).rows
    asked = {name for name in _TOPICS[2::3] if name.startswith(b"t/11") and name > b"t/1150"}
    assert [parse_name(row["topic"]) for row in rows] == sorted(asked)


def test_hub_that_owns_nothing(admin: Admin) -> None:
    assert admin.done("hub", "topics", "10.0.0.2:4080").out == "TOPIC  EPOCH\n"


def test_what_is_no_hub_is_refused(admin: Admin) -> None:
    ran = admin.run("hub", "topics", "10.0.0.2")
    assert (ran.code, ran.out) == (ExitCode.USAGE, "")
    assert "'10.0.0.2' is not host:port" in ran.err
