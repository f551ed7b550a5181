"""Prove that pyproject.toml declares what the code imports, so nothing relies on what another package brings."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from typing import Final

from tests.support.checkout import CHECKOUT

FOLDERS: Final = ("hedwig", "metadata", "hub", "operations", "cli", "pipeline", "pyspark_hedwig")
"""All but the benchmarks: developers have what those compare with."""
BROUGHT: Final = {"py4j"}
"""Packages of which other packages require an exact release: py4j is half of pyspark."""


def _name(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match is not None, requirement
    return _normal(match[0])


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _declared() -> set[str]:
    """Return the names of the packages that the project needs, with all extras for users."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    extras = [each for name, each in project["optional-dependencies"].items() if name != "dev"]
    return {_name(requirement) for each in (project["dependencies"], *extras) for requirement in each}


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module


def test_what_is_imported_is_declared() -> None:
    declared, brings = _declared(), packages_distributions()
    known = {*sys.stdlib_module_names, "hedwig", *BROUGHT}
    undeclared = set()
    for folder in FOLDERS:
        for path in (CHECKOUT / folder).rglob("*.py"):
            for name in _imported(ast.parse(path.read_bytes())):
                top = name.partition(".")[0]
                if top not in known and declared.isdisjoint(
                    map(_normal, brings.get(top, (top,)))
                ):  # What is not installed has the name of its package.
                    undeclared.add((top, path.relative_to(CHECKOUT).as_posix()))
    assert undeclared == set()
