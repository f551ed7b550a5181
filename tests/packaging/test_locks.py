"""Prove that the locks meet the requirements of pyproject.toml, each package with its hashes."""

import re
import tomllib
from collections.abc import Iterable, Iterator
from typing import Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.checkout import CHECKOUT

LOCKS: Final = {"development": ["dev"], "image": ["hub", "cli", "zookeeper", "bookkeeper"]}
"""A lock, and the extras that it is for."""
SETTINGS: Final = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
PROJECT: Final = SETTINGS["project"]


def _locked(lock: str) -> dict[str, str]:
    """Return the packages of a lock, with their versions."""
    text = (CHECKOUT / "locks" / f"{lock}.txt").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line]
    assert all(re.search(r" --hash=sha256:[0-9a-f]{64}", line) for line in lines)
    return {canonicalize_name(name): version for name, version in re.findall(r"(?m)^([\w.-]+)==(\S+)", text)}


def _asked(extras: Iterable[str]) -> Iterator[Requirement]:
    """Yield the requirements of the project with some extras, and of the extras that these name."""
    for text in (
        *PROJECT["dependencies"],
        *(each for extra in extras for each in PROJECT["optional-dependencies"][extra]),
    ):
        requirement = Requirement(text)
        if requirement.name == PROJECT["name"]:
            yield from _asked(requirement.extras)
        else:
            yield requirement


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_has_what_its_extras_ask_for(lock: str) -> None:
    locked, asked = _locked(lock), list(_asked(LOCKS[lock]))
    assert len(asked) > 5
    assert [
        str(each) for each in asked if not each.specifier.contains(locked.get(canonicalize_name(each.name), "0"))
    ] == []


def test_the_lock_of_the_build_has_what_a_build_asks_for() -> None:
    locked = _locked("build")
    for requirement in map(Requirement, ("build", *SETTINGS["build-system"]["requires"])):
        assert requirement.specifier.contains(locked[canonicalize_name(requirement.name)])


@pytest.mark.parametrize("lock", ["build", "image"])
def test_the_image_has_the_packages_that_are_tested(lock: str) -> None:
    assert _locked(lock).items() <= _locked("development").items()


def test_the_image_is_made_of_its_locks() -> None:
    dockerfile = (CHECKOUT / "docker" / "hub" / "Dockerfile").read_text()
    assert "--require-hashes -r /locks/build.txt" in dockerfile
    assert "python -m build --no-isolation" in dockerfile
    assert "--require-hashes -r /locks/image.txt" in dockerfile
