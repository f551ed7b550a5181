"""Rules for every test: long tests run on request, none skips quietly, and none hangs without a dump."""

import faulthandler
import signal
from collections.abc import Generator
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings

__all__: list[str] = []

# The real servers of a run and earlier releases, shared by the tests of every folder, and the rules by which processes
# share the tests.
pytest_plugins = [
    "tests.support.releases",
    "tests.support.servers",
    "tests.support.side_by_side",
    "tests.support.tiers",
]

# The time of an example depends on what else the machine does. No test may depend on that.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

_deselected_full = pytest.StashKey[int]()
_COUNT: Final = "long tests left out"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--full", action="store_true", help="run the tests marked full too: long fault runs, and the whole data"
    )
    parser.addini(
        "exit_deadline_s",
        "seconds from the last test to the end of the process, before it counts as hanging",
        default="120",
    )


def pytest_configure() -> None:
    """Handle Ctrl-C as usual, also in a run that a shell put into the background and so started with SIGINT ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests marked `full`, unless the run has `--full`."""
    if config.getoption("--full"):
        return
    full = [item for item in items if item.get_closest_marker("full")]
    if full:
        config.stash[_deselected_full] = len(full)
        if (output := getattr(config, "workeroutput", None)) is not None:
            output[_COUNT] = len(full)
        config.hook.pytest_deselected(items=full)
        items[:] = [item for item in items if not item.get_closest_marker("full")]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Copy the count of left-out tests from a process that ran tests. All processes leave out the same ones."""
    if count := getattr(node, "workeroutput", {}).get(_COUNT):
        node.config.stash[_deselected_full] = count


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that skips itself, unless it needs Docker: a test that did not run has proved nothing."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and item.get_closest_marker("docker") is None:
        _fail(report, "only tests marked docker may skip")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Fail a module that skips itself while it is imported."""
    report = yield
    if report.skipped:
        _fail(report, "a whole module may not skip; mark its tests docker if they need Docker")
    return report


def _fail(report: pytest.TestReport | pytest.CollectReport, rule: str) -> None:
    skipped_at = report.longrepr
    reason = skipped_at[2] if isinstance(skipped_at, tuple) else str(skipped_at)
    report.outcome = "failed"
    report.longrepr = f"{reason} - refused: {rule}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Report the tests that did not run, in one line for each reason."""
    if count := config.stash.get(_deselected_full, 0):
        terminalreporter.write_line(f"{count} long tests left out; run them too with: ./test --full")
    if count := len(terminalreporter.stats.get("skipped", ())):
        terminalreporter.write_line(f"{count} tests skipped because Docker is not available")


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """End the process, and dump every thread's stack, if something keeps it alive after the last test."""
    faulthandler.dump_traceback_later(float(config.getini("exit_deadline_s")), exit=True)
