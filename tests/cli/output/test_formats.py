"""Prove the formats of results: every command has the same fields in all formats, and any text fits in."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hedwig.cli.output.format_names import FORMATS, make_output
from tests.cli.support.admin import Admin
from tests.cli.support.agreement import check_agreement
from tests.cli.support.command_tree import ON_THE_STORE, example_of, leaves, prepare
from tests.cli.support.screen import shown_on_terminal

GIVES_TEXT = {("completion",), ("console",), ("access", "export")}
"""These write a script, the results of several commands, or a file of rules."""


@pytest.mark.parametrize("path", [path for path in leaves(ON_THE_STORE) if path not in GIVES_TEXT], ids=" ".join)
def test_every_command_writes_the_same_fields_in_every_format(
    path: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_agreement({name: _result(path, name, tmp_path / name, monkeypatch) for name in FORMATS})


def _result(path: tuple[str, ...], output: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the example of a command on a store of its own."""
    directory.mkdir()
    admin = Admin(directory, f"sqlite://{directory}/store.db")
    monkeypatch.chdir(directory)
    prepare(admin, path)
    return admin.done(*example_of(path), "-o", output).out


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.from_regex(r"[-+0-9a-fox.e_:~]+", fullmatch=True),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
ROWS = st.lists(st.dictionaries(st.sampled_from(["topic", "count", "properties"]), VALUES, min_size=1), max_size=4)


@given(ROWS)
def test_yaml_is_read_back_as_what_json_says(rows: list[dict[str, Any]]) -> None:
    assert yaml.safe_load(_listing("yaml", rows)) == json.loads(_listing("json", rows))


@pytest.mark.parametrize("text", ["1e3", "0o14", "0x1F", ".5", "12", "yes", "null", "~", "2026-01-01", "1:30", "=", ""])
def test_yaml_quotes_text_that_some_reader_takes_for_something_else(text: str) -> None:
    assert _listing("yaml", [{"topic": text}]).startswith(f"things:\n- topic: '{text}'\n")


@given(ROWS)
def test_csv_has_a_cell_for_each_field_of_each_row(rows: list[dict[str, Any]]) -> None:
    names = ["topic", "count", "properties"]
    header, *cells = csv.reader(io.StringIO(_listing("csv", rows), newline=""))
    assert header == names
    assert len(cells) == len(rows)
    for row, line in zip(rows, cells, strict=True):
        for name, cell in zip(names, line, strict=True):
            match row.get(name):
                case None:
                    assert cell == ""
                case bool() | list() | dict() as value:
                    assert json.loads(cell) == value
                case value:
                    assert cell == str(value)


def _listing(name: str, rows: list[dict[str, Any]]) -> str:
    """Return how a format shows a listing of two pages."""

    @click.command()
    def command() -> None:
        output = make_output(name, columns=None, header=True)
        names = ("topic", "count", "properties")
        output.begin("things", names, names)
        output.page(rows[:1])
        output.page(rows[1:])
        output.end()

    stdout = io.StringIO(newline="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", stdout)
        command.main([], standalone_mode=False)
    return stdout.getvalue()


def test_csv_has_one_header_unless_it_is_not_wanted(admin: Admin) -> None:
    admin.insert_topics(1200)
    lines = admin.done("topic", "list", "--all", "-o", "csv", "--columns", "topic,owner").out.splitlines()
    assert (lines[0], len(lines)) == ("topic,owner", 1201)
    assert lines.count("topic,owner") == 1
    ran = admin.done("topic", "list", "--limit", "1", "-o", "csv", "--no-header")
    assert ran.out == "topic-1\n"
    assert "--page-token" in ran.err
    assert admin.done("topic", "list", "--prefix", "none", "-o", "csv").out == "topic\n"


def test_csv_and_yaml_are_written_as_they_are_read(admin: Admin) -> None:
    admin.insert_topics(20_000)
    for output, first in (("csv", b"topic\n"), ("yaml", b"topics:\n")):
        process = admin.start("topic", "list", "--all", "-o", output)
        assert process.stdout is not None
        assert process.stdout.readline() == first
        process.stdout.close()
        # The command was writing when the pipe was closed: its output is longer than a pipe holds.
        assert process.wait(60) == 141
        for stream in (process.stderr, process.stdin):
            assert stream is not None
            stream.close()


def test_csv_of_nested_fields_is_json_in_their_cells(admin: Admin) -> None:
    admin.done("subscription", "create", "news", "reader", "--option", "lang=en")
    ran = admin.done("topic", "show", "news", "-o", "csv", "--columns", "topic,owner,subscriptions")
    (row,) = csv.DictReader(io.StringIO(ran.out))
    assert (row["topic"], row["owner"]) == ("news", "")
    (subscription,) = json.loads(row["subscriptions"])
    assert subscription["options"] == {"lang": "en"}


def test_yaml_of_bytes_that_are_no_text_has_companions_and_csv_has_none(admin: Admin) -> None:
    admin.done("topic", "create", "\\xff")
    assert yaml.safe_load(admin.done("topic", "list", "-o", "yaml").out)["topics"] == [
        {"topic": "\\xff", "topic_base64": "/w=="}
    ]
    assert admin.done("topic", "list", "-o", "csv").out == "topic\n\\xff\n"


def test_csv_on_a_terminal_is_not_cut(admin: Admin) -> None:
    name = "a-name-that-is-longer-than-any-terminal-" * 6
    admin.done("topic", "create", name)
    assert name in shown_on_terminal(admin, "topic", "list", "-o", "csv").replace("\r\n", "\n").splitlines()
