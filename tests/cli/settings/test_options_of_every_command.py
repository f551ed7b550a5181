"""Prove that commands of one kind (lists, deletions, changes) take the same options, whatever their group."""

import pytest

from tests.cli.support.command_tree import EVERY_COMMAND, leaves

_DELETES = {"delete", "delete-orphans", "unsubscribe", "down", "repair"}
"""Verbs, or commands without a group, that delete something for good."""
_BY_VERSION = {"delete", "release", "move", "reset", "seek"}
"""Verbs that change one record of the store."""


def _options(path: tuple[str, ...]) -> set[str]:
    return {option for parameter in EVERY_COMMAND[path].params for option in parameter.opts}


@pytest.mark.parametrize("path", [path for path in leaves(EVERY_COMMAND) if path[-1] == "list"], ids=" ".join)
def test_every_list_can_be_cut_and_goes_on(path: tuple[str, ...]) -> None:
    wanted = {"--start-after", "--limit", "--page-token", "--all"}
    # Ledgers have numbers, so a prefix makes no sense.
    assert wanted | ({"--prefix"} if path[0] != "ledger" else set()) <= _options(path)


@pytest.mark.parametrize("path", [path for path in leaves(EVERY_COMMAND) if path[-1] in _DELETES], ids=" ".join)
def test_whatever_deletes_asks_and_shows_beforehand_what(path: tuple[str, ...]) -> None:
    assert {"--yes", "--dry-run"} <= _options(path)


@pytest.mark.parametrize("path", [("topic", "delete"), ("subscription", "delete"), ("unsubscribe",)], ids=" ".join)
def test_deletions_can_be_repeated_by_scripts(path: tuple[str, ...]) -> None:
    assert "--if-exists" in _options(path)


@pytest.mark.parametrize(
    "path",
    [path for path in leaves(EVERY_COMMAND) if path[-1] in _BY_VERSION and path[0] in ("topic", "subscription")],
    ids=" ".join,
)
def test_every_change_of_a_record_takes_the_version_that_it_is_about(path: tuple[str, ...]) -> None:
    assert "--expected-version" in _options(path)
