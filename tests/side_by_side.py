"""How two processes share the tests: a module goes whole to one of them, and so does a folder that starts much."""

from typing import Final

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

__all__ = ["WHOLE", "WholeFolders", "pytest_collection_modifyitems", "pytest_xdist_make_scheduler"]

WHOLE: Final = ("tests/pipeline/", "tests/chaos/", "tests/java_hedwig/", "tests/java_client/")
"""Folders with a Spark session, or with Java servers of their own: to start these in both processes takes a minute."""


class WholeFolders(LoadFileScheduling):  # type: ignore[misc]  # It has no types.
    """Gives modules out in the order of the tests, and such a folder at once."""

    def _split_scope(self, nodeid: str) -> str:
        return next((folder for folder in WHOLE if nodeid.startswith(folder)), nodeid.partition("::")[0])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> WholeFolders | None:
    """Share the tests like this wherever modules are to go whole to a process."""
    if config.getoption("dist") != "loadfile":
        return None
    # By the number of their tests, those that take a minute each would come last, and the other process would wait.
    config.option.loadscopereorder = False
    return WholeFolders(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the largest shares, so that the last one is short."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: not item.nodeid.startswith(WHOLE))
