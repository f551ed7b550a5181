"""The fixture `hedwig_hub`, which pytest finds by itself. It imports the hub on first use."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from hedwig.testing import HubInProcess

__all__ = ["hedwig_hub"]


@pytest.fixture
def hedwig_hub() -> "Iterator[HubInProcess]":
    """A hub of this test's own, which runs in this process and keeps everything in memory. See hedwig.testing."""
    from hedwig.testing import HubInProcess

    with HubInProcess() as hub:
        yield hub
