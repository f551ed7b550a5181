"""How processes share the tests: all tests of a module go to one process, and so do those of some folders.

Half of the processes take the shares with tests on HBase as long as there are any, and the others the rest. So fewer
processes start an HBase of their own, which takes processor time also while it has nothing to do.
"""

from typing import Final

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

__all__ = ["WHOLE", "WholeFolders", "pytest_collection_modifyitems", "pytest_xdist_make_scheduler"]

WHOLE: Final = ("tests/pipeline/", "tests/chaos/", "tests/java_hedwig/", "tests/java_client/")
"""Folders with a Spark session, or with their own Java servers. Starting these in each process takes a minute."""


class WholeFolders(LoadFileScheduling):  # type: ignore[misc]  # It has no types.
    """Gives modules to the processes in the order of the tests, and a folder of `WHOLE` as one."""

    def _split_scope(self, nodeid: str) -> str:
        return next((folder for folder in WHOLE if nodeid.startswith(folder)), nodeid.partition("::")[0])

    def _assign_work_unit(self, node: WorkerController) -> None:
        takes_hbase = 2 * self.nodes.index(node) < len(self.nodes)
        for share, tests in self.workqueue.items():
            if any("hbase" in test for test in tests) is takes_hbase:
                self.workqueue.move_to_end(share, last=False)
                break
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> WholeFolders | None:
    """Share the tests in this way if the run has `--dist loadfile`."""
    if config.getoption("dist") != "loadfile":
        return None
    # xdist would order shares by the number of their tests. The tests that take a minute each would then come last, and
    # the other processes would wait for them.
    config.option.loadscopereorder = False
    return WholeFolders(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the folders of `WHOLE`, the largest shares, so that the last share is short."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: not item.nodeid.startswith(WHOLE))
