"""Prove what the metadata commands do to a store: lay it out, empty it, count it, describe it."""

from pathlib import Path

import pytest

from hedwig.operations.checks.verdicts import CheckExit
from tests.cli.support.admin import Admin


def _populate(admin: Admin) -> None:
    admin.done("subscription", "create", "news", "a")
    admin.done("subscription", "create", "news", "b")
    admin.done("topic", "create", "weather")


def _records(admin: Admin) -> tuple[int, ...]:
    return tuple(admin.count(table) for table in ("ownership", "persistence", "subscriptions"))


def test_format_lays_out_once_and_keeps_records(admin: Admin) -> None:
    first = admin.done("metadata", "format", "-o", "json").json
    assert (first["backend"], first["format"], first["metadata"]) == ("sqlite", "1.0", admin.url)
    _populate(admin)
    assert admin.done("metadata", "format", "-o", "json").json == first
    assert _records(admin) == (0, 2, 2)


def test_command_that_a_missing_layout_names_makes_it(admin: Admin) -> None:
    url = f"{admin.url}?create=false"
    ran = admin.run("topic", "list", "--metadata", url)
    assert ran.code == 1
    assert f"hedwig-admin metadata format --metadata '{url}'" in ran.err
    admin.done("metadata", "format", "--metadata", url)
    admin.done("topic", "list", "--metadata", url)


def test_wipe_wants_its_target_typed_out(admin: Admin) -> None:
    _populate(admin)
    for answer in ("", "y\n", "yes\n", admin.url[:-1] + "\n"):
        ran = admin.run("metadata", "format", "--wipe", text=answer)
        assert ran.code in (1, 2)
        assert "0 owner records, 2 topics, 2 subscriptions" in ran.err
    assert _records(admin) == (0, 2, 2)
    ran = admin.done("metadata", "format", "--wipe", "-o", "json", text=admin.url + "\n")
    assert ran.json["deleted"] == {"ownership": 0, "persistence": 2, "subscriptions": 2}
    assert _records(admin) == (0, 0, 0)


def test_wipe_in_scripts_and_rehearsed(admin: Admin) -> None:
    _populate(admin)
    rehearsed = admin.done("metadata", "format", "--wipe", "--dry-run", "-o", "json").json
    assert rehearsed["would_delete"] == {"ownership": 0, "persistence": 2, "subscriptions": 2}
    assert _records(admin) == (0, 2, 2)
    admin.done("metadata", "format", "--wipe", "--yes")
    assert _records(admin) == (0, 0, 0)


def test_stats_counts_each_kind(admin: Admin) -> None:
    _populate(admin)
    for more in ([], ["--exact"]):
        rows = admin.done("metadata", "stats", "-o", "ndjson", *more).rows
        assert rows == [
            {"kind": "ownership", "count": 0, "about": False},
            {"kind": "persistence", "count": 2, "about": False},
            {"kind": "subscriptions", "count": 2, "about": False},
        ]


def test_describe_says_what_the_store_is(admin: Admin) -> None:
    admin.done("metadata", "format")
    described = admin.done("metadata", "describe", "-o", "json").json
    assert described["metadata"] == admin.url
    assert described["backend"] == "sqlite"
    assert described["file"] == admin.url.removeprefix("sqlite://")
    assert described["size_bytes"] == Path(described["file"]).stat().st_size
    assert "KiB" in admin.done("metadata", "describe").out


@pytest.mark.parametrize(
    "arguments",
    [
        *(("metadata", name) for name in ("stats", "describe", "check", "sweep")),
        ("metadata", "repair", "--yes"),
        ("metadata", "thaw", "--yes"),
        ("metadata", "export", "it.gz"),
        ("topic", "list"),
        ("topic", "show", "x"),
        ("topic", "stats", "x"),
        ("topic", "owner", "x"),
        ("topic", "delete", "x", "--yes"),
        ("subscription", "list", "x"),
        ("subscription", "delete", "x", "y", "--yes"),
        ("message", "peek", "x"),
        ("top",),
        ("check", "health"),
    ],
    ids=" ".join,
)
def test_store_of_a_mistyped_name_is_not_made(
    admin: Admin, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(admin.directory)
    ran = admin.run(*arguments)
    assert ran.code != 0
    assert "metadata format" in ran.out + ran.err
    assert "create=false" not in ran.out + ran.err
    assert list(admin.directory.glob("store.db*")) == []


def test_store_that_was_moved_says_where_to_in_every_look(admin: Admin, tmp_path: Path) -> None:
    admin.done("topic", "create", "news")
    assert admin.done("metadata", "describe", "-o", "json").json["state"] == "open"
    target = f"sqlite://{tmp_path}/target.db"
    admin.done("metadata", "migrate", "--from", admin.url, "--to", target, "--yes")
    described = admin.done("metadata", "describe", "-o", "json")
    assert (described.json["state"], described.json["target"]) == ("moved", target)
    health = admin.run("check", "health", "-o", "json")
    assert health.code == CheckExit.CRITICAL
    (said,) = [row["detail"] for row in health.json["checks"] if row["check"] == "freeze"]
    for line in (described.err, admin.done("metadata", "check").err, said):
        assert f"moved to {target}" in line
        assert f"metadata thaw --metadata {admin.url}" in line
    admin.done("metadata", "thaw", "--yes")
    assert target not in admin.done("metadata", "check").err


def test_sweep_removes_only_remnants(admin: Admin) -> None:
    _populate(admin)
    assert admin.done("metadata", "sweep", "-o", "json").json == {"metadata": admin.url, "removed": 0}
    assert _records(admin) == (0, 2, 2)
    planned = admin.done("metadata", "sweep", "--dry-run", "-o", "json").json
    assert planned == {"metadata": admin.url, "would_remove": 0}
    for dry_run in ((), ("--dry-run",)):
        assert admin.run("metadata", "sweep", "--older-than", "0.5", *dry_run).code == 2
