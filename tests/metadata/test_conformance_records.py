"""Prove that every field of a record is read back, unknown newer fields stay, and updates change no other parts."""

import ast
from collections.abc import Iterator
from pathlib import Path

import hedwig
from hedwig.metadata.testing.suite.records import *  # noqa: F403


def test_whether_updates_are_partial_is_information_only() -> None:
    """No code may branch on it: the managers behave the same either way."""
    root = Path(hedwig.__file__).parents[1]
    folders = ("hedwig", "metadata", "hub", "operations", "cli", "pipeline", "benchmarks", "tests")
    sources = [path for folder in folders for path in root.joinpath(folder).rglob("*.py")]
    assert sources
    assert [path for path in sources for test in _conditions(path) if "is_partial_update_supported" in test] == []


def _conditions(path: Path) -> Iterator[set[str]]:
    """Yield, for every condition in a module, the attributes that it reads."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.If | ast.IfExp | ast.While):
            decides: list[ast.expr] = [node.test]
        elif isinstance(node, ast.comprehension):
            decides = node.ifs
        elif isinstance(node, ast.BoolOp):
            decides = node.values
        elif isinstance(node, ast.Match):
            decides = [node.subject]
        else:
            continue
        yield {part.attr for one in decides for part in ast.walk(one) if isinstance(part, ast.Attribute)}
