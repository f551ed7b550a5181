"""The tests that a usual run does through HBase's Thrift gateway."""

from collections.abc import Iterable
from typing import Final

import pytest

__all__ = ["leave_to_long_runs"]

_GATEWAY: Final = "hbase+thrift"


def leave_to_long_runs(items: Iterable[pytest.Item]) -> None:
    """Mark as `full` each test of a module through the gateway that `THROUGH_THE_GATEWAY` of the module does not name.

    Keys, tables and servers are the same for both HBase drivers, and a call through the gateway takes longer.
    """
    for item in items:
        if isinstance(item, pytest.Function) and _GATEWAY in item.nodeid:
            chosen: tuple[str, ...] | None = getattr(item.module, "THROUGH_THE_GATEWAY", None)
            if chosen is not None and item.originalname not in chosen:
                item.add_marker(pytest.mark.full)
