"""Ledger metadata has the paths at which the Java tools look for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedwig.errors import ConfigurationError, InvalidArgumentError
from hedwig.hub.ledgers.bookkeeper.records.znode_paths import LedgerLayout, layout_text, parse_layout

EXAMPLES = {
    7: "00/0000/L0007",
    2147483646: "21/4748/L3646",
    2147483647: "000/0000/0021/4748/L3647",
    1099511627781: "000/0001/0995/1162/L7781",
}


@pytest.mark.parametrize(("ledger_id", "path"), EXAMPLES.items())
def test_the_paths_of_the_default_layout(ledger_id: int, path: str) -> None:
    assert LedgerLayout.HIERARCHICAL.path(ledger_id) == path
    assert LedgerLayout.HIERARCHICAL.ledger_id(path) == ledger_id


def test_the_paths_of_the_other_layouts() -> None:
    assert LedgerLayout.LONG_HIERARCHICAL.path(7) == "000/0000/0000/0000/L0007"
    assert LedgerLayout.LEGACY_HIERARCHICAL.path(7) == "00/0000/L0007"
    assert LedgerLayout.FLAT.path(7) == "L0000000007"


@given(st.sampled_from(list(LedgerLayout)), st.integers(0, (1 << 63) - 1) | st.integers(0, 1 << 32))
def test_paths_lead_back_and_through_directories(layout: LedgerLayout, ledger_id: int) -> None:
    if ledger_id >= layout.ids_end:
        with pytest.raises(InvalidArgumentError):
            layout.path(ledger_id)
        return
    path = layout.path(ledger_id)
    assert layout.ledger_id(path) == ledger_id
    parts = path.split("/")
    for count in range(1, len(parts)):
        assert layout.is_directory("/".join(parts[:count]))
    assert not layout.is_directory(path)


@pytest.mark.parametrize("layout", list(LedgerLayout))
@pytest.mark.parametrize(
    "path",
    [
        "LAYOUT", "INSTANCEID", "available", "cookies", "idgen", "idgen-long", "underreplication",
        "idgen/ID-0000000001",
        "0/0000/L0007", "00/0000/0007", "00/000/L0007", "99/9999/L9999", "21/4748/L3647", "L7", "",
        "999/9999/9999/9999/L9999", "00/0000/L00070",
    ],
)  # fmt: skip
def test_what_is_no_ledger(layout: LedgerLayout, path: str) -> None:
    assert layout.ledger_id(path) is None
    assert not layout.is_directory(path)


def test_one_ledger_has_one_path() -> None:
    assert LedgerLayout.HIERARCHICAL.ledger_id("000/0000/0000/0000/L0007") is None
    assert LedgerLayout.LONG_HIERARCHICAL.ledger_id("00/0000/L0007") is None


@pytest.mark.parametrize("ledger_id", [-1, 1 << 63])
def test_what_is_no_id(ledger_id: int) -> None:
    with pytest.raises(InvalidArgumentError):
        LedgerLayout.HIERARCHICAL.path(ledger_id)


@pytest.mark.parametrize("layout", list(LedgerLayout))
def test_layouts_are_told_by_their_znode(layout: LedgerLayout) -> None:
    assert parse_layout(layout_text(layout)) is layout
    assert parse_layout(layout_text(layout) + b"\n") is layout


def test_the_content_of_the_layout_znode() -> None:
    expected = b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1"
    assert layout_text(LedgerLayout.HIERARCHICAL) == expected


@pytest.mark.parametrize(
    "content",
    [
        b"", b"1\nhierarchical:1", b"2\norg.apache.bookkeeper.meta.MSLedgerManagerFactory:1",
        b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:2", b"\xff\n\xff",
    ],
)  # fmt: skip
def test_unknown_layouts_are_refused(content: bytes) -> None:
    with pytest.raises(ConfigurationError):
        parse_layout(content)
