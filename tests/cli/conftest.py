"""What the tests of the command line share."""

from pathlib import Path

import pytest

from tests.cli.support.admin import Admin

__all__: list[str] = []


@pytest.fixture
def admin(tmp_path: Path) -> Admin:
    """hedwig-admin on an embedded store that nobody else uses."""
    return Admin(tmp_path, f"sqlite://{tmp_path}/store.db")
