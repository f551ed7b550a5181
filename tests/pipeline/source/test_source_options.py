"""Prove that each option says what it accepts: the error names it, its value and what would be right."""

import re

import pytest

from hedwig.errors import ConfigurationError
from hedwig.pipeline.frames.policies import Policy
from hedwig.pipeline.frames.tables import OnCorrupt, Table
from hedwig.pipeline.source import source_options
from hedwig.pipeline.source.apply import ApplyConfig
from hedwig.pipeline.source.plan import NameRange, ScanConfig
from hedwig.pipeline.source.source_options import OnConflict, SourceOptions
from tests.support.checkout import CHECKOUT

DOCUMENT = CHECKOUT / "docs" / "how-to" / "pipeline.md"
STORE = {"url": "sqlite:///tmp/store.db", "table": "owners"}


def read(given: dict[str, str]) -> tuple[ScanConfig, bool]:
    """Parse options as a reader does."""
    options = SourceOptions(given)
    return options.scan_config(), options.pushdown


def write(given: dict[str, str]) -> tuple[ApplyConfig, OnConflict]:
    """Parse options as a writer does."""
    options = SourceOptions(given)
    return options.apply_config(), options.on_conflict


def test_reading_needs_a_place_only() -> None:
    assert read(STORE) == (ScanConfig(url=STORE["url"], table=Table.OWNERS), False)


def test_writing_needs_a_place_only() -> None:
    assert write(STORE) == (ApplyConfig(url=STORE["url"], table=Table.OWNERS), OnConflict.FAIL)


def test_every_option_of_reading() -> None:
    given = {
        "URL": "zookeeper://host:2181/hedwig/region",
        "Table": "SUBSCRIPTIONS",
        "prefix": "news/\\x00",
        "start": "news/a",
        "stop": "news/käse\\\\",
        "rowsPerPartition": "7",
        "FETCHROWS": "8",
        "batchRows": "9",
        "timeoutSeconds": "10",
        "onCorrupt": "skip",
        "pushdown": "True",
    }
    options = SourceOptions(given)
    assert options.pushdown
    assert options.scan_config() == ScanConfig(
        url="zookeeper://host:2181/hedwig/region",
        table=Table.SUBSCRIPTIONS,
        names=NameRange(prefix=b"news/\x00", start=b"news/a", stop="news/käse\\".encode()),
        rows_per_partition=7,
        fetch_rows=8,
        batch_rows=9,
        operation_timeout_s=10,
        on_corrupt=OnCorrupt.SKIP,
    )


def test_every_option_of_writing() -> None:
    given = STORE | {
        "policy": "Overwrite",
        "batchRows": "5",
        "connections": "6",
        "timeoutSeconds": "7",
        "onConflict": "report",
        "hubsStopped": "true",
    }
    options = SourceOptions(given)
    assert options.on_conflict is OnConflict.REPORT
    assert options.apply_config() == ApplyConfig(
        url=STORE["url"],
        table=Table.OWNERS,
        policy=Policy.OVERWRITE,
        batch_rows=5,
        connections=6,
        operation_timeout_s=7,
        hubs_stopped=True,
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"url": "no url"}, "the option 'url' is 'no url'; it takes the URL of a metadata store"),
        ({"url": "sqlite://"}, "the option 'url' is 'sqlite://'; it takes the URL of a metadata store"),
        ({"table": "topic"}, "the option 'table' is 'topic'; it takes one of topics, owners, ledgers, subscriptions"),
        ({"prefix": "a\\b"}, "the option 'prefix' is 'a\\\\b'; it takes a topic or the beginning of one"),
        ({"rowsPerPartition": "0"}, "the option 'rowsPerPartition' is '0'; it takes a whole number from 1 to"),
        ({"rowsPerPartition": "10000001"}, "it takes a whole number from 1 to 10,000,000"),
        ({"rowsPerPartition": "1e6"}, "the option 'rowsPerPartition' is '1e6'"),
        ({"fetchRows": "-5"}, "the option 'fetchRows' is '-5'"),
        ({"batchRows": "all"}, "the option 'batchRows' is 'all'"),
        ({"timeoutSeconds": "4000"}, "the option 'timeoutSeconds' is '4000'; it takes a whole number from 1 to 3,600"),
        ({"onCorrupt": "ignore"}, "the option 'onCorrupt' is 'ignore'; it takes one of fail, skip"),
        ({"pushdown": "yes"}, "the option 'pushdown' is 'yes'; it takes true or false"),
        ({"policy": "create"}, "the option 'policy' is not for reading; for that there are url, table, prefix"),
        ({"rowPerPartition": "5"}, "the data source hedwig has no option 'rowperpartition'; it has batchRows, "),
        ({"path": "/somewhere"}, "a store of Hedwig has no path"),
    ],
)
def test_wrong_option_of_reading_is_named(wrong: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        read(STORE | wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"policy": "merge"}, "the option 'policy' is 'merge'; it takes one of create, replace, overwrite"),
        ({"connections": "65"}, "the option 'connections' is '65'; it takes a whole number from 1 to 64"),
        ({"batchRows": "8193"}, "the option 'batchRows' is '8193'; it takes a whole number from 1 to 8,192"),
        ({"onConflict": "stop"}, "the option 'onConflict' is 'stop'; it takes one of fail, report"),
        ({"hubsStopped": "1"}, "the option 'hubsStopped' is '1'; it takes true or false"),
        ({"prefix": "a"}, "the option 'prefix' is not for writing; for that there are url, table, policy"),
        ({"policy": "overwrite"}, "stop all hubs of the store and say so (hubsStopped=true)"),
        ({"policy": "replace", "table": "topics"}, "To replace records, write the table ledgers"),
    ],
)
def test_wrong_option_of_writing_is_named(wrong: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        write(STORE | wrong)


@pytest.mark.parametrize("missing", ["url", "table"])
def test_missing_place_is_asked_for(missing: str) -> None:
    given = {name: value for name, value in STORE.items() if name != missing}
    with pytest.raises(ConfigurationError, match=f"the option '{missing}' is missing"):
        SourceOptions(given).scan_config()


def test_the_document_tells_every_option_with_its_default() -> None:
    table = DOCUMENT.read_text().partition("| option | default | meaning |")[2].partition("\n\n")[0]
    both, reading, writing = (
        dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", part, re.MULTILINE))
        for part in re.split(r"^\| \*\w+\* \|.*$", table, flags=re.MULTILINE)
    )
    for options, documented in ((source_options._READING, both | reading), (source_options._WRITING, both | writing)):
        assert {option.name for option in options} == set(documented)
        for option in options:
            if option.default:
                assert documented[option.name].strip("`").replace(",", "") == option.default, option.name
