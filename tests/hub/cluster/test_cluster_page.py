"""Prove that docs/how-to/cluster.md names every option that only a hub of a cluster has, and no unknown option."""

import re
from dataclasses import fields
from typing import Final

import pytest

from hedwig.hub.options.cluster_options import BookieOptions, ClusterOptions
from tests.support.checkout import CHECKOUT

PAGE: Final = (CHECKOUT / "docs" / "how-to" / "cluster.md").read_text()


@pytest.mark.parametrize(("section", "options"), [("cluster", ClusterOptions), ("bookkeeper", BookieOptions)])
def test_page_names_the_options_that_there_are(
    section: str, options: type[ClusterOptions] | type[BookieOptions]
) -> None:
    table = PAGE.partition(f"`[{section}]`:\n\n")[2].partition("\n\n")[0]
    named = [name for row in table.splitlines()[2:] for name in re.findall(r"`([a-z_]+)`", row.split("|")[1])]
    assert sorted(named) == sorted(field.name for field in fields(options))


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("claims_rate", "2,000"),
        ("takeover_rate", "5,000"),
        ("session_timeout_s", "10 s"),
        ("rebalance_interval_s", "300 s"),
        ("rebalance_topics_max", "50"),
        ("drain_rate", "1,000"),
    ],
)
def test_page_shows_the_default(name: str, shown: str) -> None:
    (row,) = [row for row in PAGE.splitlines() if row.startswith(f"| `{name}` |")]
    assert row.split("|")[2].strip() == shown
    assert float(shown.removesuffix(" s").replace(",", "")) == getattr(ClusterOptions(), name)
