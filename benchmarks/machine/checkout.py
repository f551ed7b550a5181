"""The path from which Hedwig is imported; processes that a benchmark starts import it from there, too."""

from pathlib import Path
from typing import Final

import hedwig

__all__ = ["CHECKOUT"]

CHECKOUT: Final = Path(hedwig.__file__).parents[1]
