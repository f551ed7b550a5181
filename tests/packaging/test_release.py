"""Prove that the changelog tells of the version that is installed, which stands in pyproject.toml alone."""

import re
from importlib.metadata import version

from tests.support.checkout import CHECKOUT


def test_newest_release_in_the_changelog_is_this_version() -> None:
    changelog = (CHECKOUT / "CHANGELOG.md").read_text()
    releases = re.findall(r"(?m)^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d{2}-\d{2}$", changelog)
    assert releases[0] == version("hedwig-pubsub")
