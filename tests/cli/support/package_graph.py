"""Loads the package graph of examples/data as users do, and compares it with counts of the files."""

from typing import Final

from tests.cli.support.admin import Admin, Ran
from tests.support.checkout import CHECKOUT

__all__ = ["check_package_graph"]

_DATA: Final = CHECKOUT / "examples" / "data"
_DEADLINE_S: Final = 1200.0
_TOPICS: Final = 63_666
_SUBSCRIPTIONS: Final = 277_181
_MOST_ON_ONE_TOPIC: Final = ("libs/libc6", 21_841)


def check_package_graph(admin: Admin) -> None:
    """Load both files into an empty store, and check that each line became a record."""
    for noun, rows in (("topic", _TOPICS), ("subscription", _SUBSCRIPTIONS)):
        source, result = _DATA / f"{noun}s.tsv.gz", admin.directory / noun
        summary = _apart(admin, noun, "create", "-f", str(source), "--result", str(result), "-o", "json").json
        assert (summary["created"], summary["existed"], summary["failed"]) == (rows, 0, 0)
        print(f"{admin.url.partition(':')[0]}: {summary['rows_per_second']} {noun}s/s")
    counts = {row["kind"]: row["count"] for row in _apart(admin, "metadata", "stats", "-o", "ndjson").rows}
    assert counts == {"ownership": 0, "persistence": _TOPICS, "subscriptions": _SUBSCRIPTIONS}
    assert len(_apart(admin, "topic", "list", "--all", "-o", "ndjson").rows) == _TOPICS
    topic, subscriptions = _MOST_ON_ONE_TOPIC
    assert _apart(admin, "topic", "show", topic, "-o", "json").json["subscription_count"] == subscriptions


def _apart(admin: Admin, *arguments: str) -> Ran:
    # Use another process. A load can outlast the time after which pytest dumps the threads of a test that may hang.
    # Dumping threads at work can crash Python.
    ran = admin.run_apart(*arguments, deadline_s=_DEADLINE_S)
    assert ran.code == 0, ran.err
    return ran
