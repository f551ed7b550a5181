"""The folder of the checkout that the tests belong to."""

from pathlib import Path
from typing import Final

__all__ = ["CHECKOUT"]

CHECKOUT: Final = Path(__file__).parents[2]
