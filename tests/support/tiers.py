"""Which tests need a server that is not ours, and which of the others are quick enough to run all the time.

- `--without-servers` runs the tests that need no ZooKeeper, HBase, bookie, Spark, Docker or other program in Java.
- `--fast` runs those of them that start no process and no hub, without some folders and most conformance suites.

The needs of a test are found from the names in its module and in the modules of its fixtures. So there is no list to
keep up to date. Tests that start servers in another way have the mark `servers`. These runs hide Java, so a test that
lacks the mark fails.
"""

import functools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

from tests.support.checkout import CHECKOUT
from tests.support.side_by_side import WHOLE

__all__ = ["needs_server", "starts_something"]

_SERVERS: Final = {"DevServers"}
"""Names of what starts servers that are not ours."""
_PROCESSES: Final = {
    *("Popen", "multiprocessing", "subprocess"),
    *("HeldAdmin", "RunningHub", "Terminal", "TlsHub", "shown_on_terminal"),
}
_BY_COMMANDS: Final = ("tests/benchmarks/drivers/", "tests/benchmarks/suites/")
"""Folders whose tests start servers by hedwig-bench."""
_HUBS: Final = {"start_hub"}
"""Fixtures that run a hub in the process of the tests."""
_NOT_FAST: Final = ("tests/benchmarks/", "tests/cli/", "tests/faults/")
"""Folders whose tests draw reports, run whole commands and search histories, which takes seconds each."""
_SUITES: Final = "test_conformance_"
_FAST_SUITES: Final = {"test_conformance_truth_table.py"}
"""The conformance suites would be half of the remaining run. This one checks the most in the least time."""
_left_out = pytest.StashKey[int]()
_NO_JAVA: Final = "/no Java in a run without servers"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--without-servers", action="store_true", help="run the tests that need no server but our own")
    parser.addoption("--fast", action="store_true", help="run those of them that start no process: the first tier")


def pytest_configure(config: pytest.Config) -> None:
    if _is_without_servers(config):
        os.environ["JAVA_HOME"] = _NO_JAVA


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out whole folders and modules, so that tests that do not run are not imported either."""
    if not _is_without_servers(config) or not collection_path.is_relative_to(CHECKOUT):
        return None
    name = collection_path.name
    if config.getoption("--fast") and name.startswith(_SUITES) and name not in _FAST_SUITES:
        return True
    folder = f"{collection_path.relative_to(CHECKOUT).as_posix()}/"
    return True if folder.startswith(_folders_left_out(config)) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that do not belong to a run without servers, or to the first tier."""
    if not _is_without_servers(config):
        return
    is_fast = config.getoption("--fast")
    left_out = [item for item in items if needs_server(item) or (is_fast and starts_something(item))]
    if left_out:
        config.stash[_left_out] = len(left_out)
        config.hook.pytest_deselected(items=left_out)
        kept = set(items).difference(left_out)
        items[:] = [item for item in items if item in kept]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Report in one line which tests did not run."""
    if count := config.stash.get(_left_out, 0):
        why = "need servers, or start processes or hubs" if config.getoption("--fast") else "need servers"
        folders = ", ".join(_folders_left_out(config))
        terminalreporter.write_line(
            f"{count} tests left out that {why}, and all of {folders}; run them too with: ./test"
        )


def needs_server(item: pytest.Item) -> bool:
    """Say whether a test needs a server that is not ours."""
    if any(item.get_closest_marker(name) for name in ("docker", "servers")):
        return True
    if item.nodeid.startswith((*WHOLE, *_BY_COMMANDS)):
        return True
    return not _is_on_files(item) and not _SERVERS.isdisjoint(_names(item))


def starts_something(item: pytest.Item) -> bool:
    """Say whether a test runs a hub, or may start a process because its module or one of its fixtures can."""
    fixtures = item.fixturenames if isinstance(item, pytest.Function) else ()
    return not _HUBS.isdisjoint(fixtures) or not _PROCESSES.isdisjoint(_names(item))


def _folders_left_out(config: pytest.Config) -> tuple[str, ...]:
    return (*WHOLE, *(_NOT_FAST if config.getoption("--fast") else _BY_COMMANDS))


def _is_without_servers(config: pytest.Config) -> bool:
    return bool(config.getoption("--without-servers") or config.getoption("--fast"))


def _is_on_files(item: pytest.Item) -> bool:
    """Say whether the backend in the parameters of a test needs no server."""
    given: dict[str, Any] = (
        item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    )
    return any(hasattr(each, "url_at") and each.url_at("127.0.0.1", 1) is None for each in given.values())


def _names(item: pytest.Item) -> frozenset[str]:
    return frozenset(name for module in _modules(item) for name in _names_of(module))


@functools.cache
def _names_of(module: ModuleType) -> frozenset[str]:
    return frozenset(vars(module))


def _modules(item: pytest.Item) -> Iterator[ModuleType]:
    """Yield the module of a test, and the modules of those of our fixtures that it uses."""
    if not isinstance(item, pytest.Function):
        return
    yield item.module
    for definitions in item._fixtureinfo.name2fixturedefs.values():
        for definition in definitions:
            name = definition.func.__module__
            if name.startswith("tests.") and name in sys.modules:
                yield sys.modules[name]
