"""Prove that docs/reference/admin.md names every command, and no command that does not exist."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import pytest

from hedwig.cli.main import main
from tests.cli.support.command_tree import EVERY_COMMAND, leaves
from tests.support.checkout import CHECKOUT

PAGES: Final = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").rglob("*.md"))]
PAGE: Final = (CHECKOUT / "docs" / "reference" / "admin.md").read_text()
SECTIONS: Final[dict[str, str]] = dict(
    re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", PAGE, flags=re.DOTALL | re.MULTILINE)
)
_USAGE: Final = re.compile(r"^    (?:\$ )?(?:[A-Z_]+=\S+ )*hedwig-admin (.*(?:\n {20,}\S.*)*)", flags=re.MULTILINE)
_OPTION: Final = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def _section(name: str) -> str:
    (text,) = (text for heading, text in SECTIONS.items() if name in heading.split(", "))
    return text


def _usages() -> Iterator[tuple[str, list[str]]]:
    """Yield each line of code that gives a command, with its continuation lines, and its words."""
    for usage in _USAGE.finditer(PAGE):
        line = usage.group(1).partition(" #")[0]
        yield line, line.split()


def _command_of(words: list[str]) -> tuple[tuple[str, ...], click.Command]:
    """Return the command at the beginning of `words`."""
    path: tuple[str, ...] = ()
    command: click.Command = main
    for word in words:
        if not isinstance(command, click.Group) or word.startswith("-"):
            break
        assert word in command.commands, f"there is no command {' '.join((*path, word))!r}"
        command = command.commands[word]
        path = (*path, word)
    return path, command


@pytest.mark.parametrize("name", list(main.commands))
def test_every_group_has_a_section(name: str) -> None:
    assert _section(name).strip()


@pytest.mark.parametrize("path", leaves(EVERY_COMMAND), ids=" ".join)
def test_every_command_is_in_the_section_of_its_group(path: tuple[str, ...]) -> None:
    usage = rf"^    hedwig-admin {' '.join(path)}(?![\w-])"
    assert re.search(usage, _section(path[0]), flags=re.MULTILINE), f"the page does not give the usage of {path}"


def test_no_command_and_no_option_is_on_the_page_that_does_not_exist() -> None:
    seen = set()
    for line, words in _usages():
        path, command = _command_of(words)
        options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
        for option in _OPTION.findall(re.sub(r"'[^']*'|\"[^\"]*\"", "", line)):
            assert option in options | {"--help"}, f"{' '.join(path)} has no {option}"
        seen.add(path)
    assert set(leaves(EVERY_COMMAND)) <= seen


def test_no_section_names_a_group_that_does_not_exist() -> None:
    for heading in SECTIONS:
        if heading[0].islower():
            assert set(heading.split(", ")) <= set(main.commands), heading


def test_inline_code_names_commands_that_exist() -> None:
    for text in re.findall(r"`hedwig-admin ([a-z][^`]*)`", PAGE):
        _command_of(text.split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_page_names_commands_that_exist(page: Path) -> None:
    text = page.read_text()
    for words in re.findall(r"(?:^    \$ |`)hedwig-admin ([a-z][^`\n]*)", text, flags=re.MULTILINE):
        _command_of([re.sub(r"[;,|].*", "", word) for word in words.split()])
    assert "cli.md" not in text
