"""What the tests of the packages share: the wheel, built from the checkout."""

from pathlib import Path

import pytest

from tests.packaging.support.building import build
from tests.support.checkout import CHECKOUT

__all__: list[str] = []


@pytest.fixture(scope="session")
def wheel_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built once."""
    return build(CHECKOUT, tmp_path_factory.mktemp("wheel"), "--wheel")
