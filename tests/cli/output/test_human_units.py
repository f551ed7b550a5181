"""Prove that tables show sizes and durations in units for people, and that programs get the plain numbers."""

import pytest

from hedwig.cli.output.format_names import FORMATS, make_output
from hedwig.human_units import duration_text, elapsed_text, size_text

ROW = {"topic": "news", "stored_bytes": 1_288_490_189, "owned_for_s": 7503, "publishes_per_s": 7503.5, "p99_ms": 12.5}


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (72, "72 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1_048_575, "1.0 MiB"),
        (1_288_490_189, "1.2 GiB"),
        (5 * 1024**5, "5.0 PiB"),
        (5000 * 1024**5, "5000.0 PiB"),
    ],
)
def test_size_in_words(size: int, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.25, "0.25 s"),
        (1.003, "1 s"),
        (9.9, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (3599, "59 min"),
        (7503, "2 h 5 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_duration_in_words(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (9.9, "9.9 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (65, "1 min 5 s"),
        (3605, "1 h 0 min 5 s"),
        (90_061, "1 d 1 h 1 min 1 s"),
    ],
)
def test_time_that_goes_on_in_words(seconds: float, text: str) -> None:
    assert elapsed_text(seconds) == text


@pytest.mark.parametrize("is_listing", [True, False])
def test_only_tables_have_words(capsys: pytest.CaptureFixture[str], is_listing: bool) -> None:
    for name in FORMATS:
        output = make_output(name, columns=None, header=True)
        if is_listing:
            output.listing("topics", [ROW], tuple(ROW))
        else:
            output.record(ROW)
        shown = capsys.readouterr().out
        assert ("1.2 GiB" in shown, "2 h 5 min" in shown) == (name == "table", name == "table"), name
        assert ("1288490189" in shown) == (name != "table")
        assert "7503.5" in shown
        assert "12.5" in shown


def test_nested_sizes_have_words_too(capsys: pytest.CaptureFixture[str]) -> None:
    make_output("table", columns=None, header=True).record({"ledgers": [{"ledger_id": 7, "stored_bytes": 2048}]})
    assert "ledger_id=7 stored_bytes=2.0 KiB" in capsys.readouterr().out
