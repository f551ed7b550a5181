"""Where the checkout is that the tests are part of."""

from pathlib import Path
from typing import Final

__all__ = ["CHECKOUT"]

CHECKOUT: Final = Path(__file__).parents[1]
