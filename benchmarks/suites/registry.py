"""All suites. Each is a folder beside this module, whose module `suite` defines SUITE. A new suite changes no other."""

import importlib
import pkgutil
from functools import cache
from pathlib import Path

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.suites.suite import Suite

__all__ = ["suite_of", "suites"]


@cache
def suites() -> tuple[Suite, ...]:
    """Return all suites, in the order of their folders' names."""
    folders = [each.name for each in pkgutil.iter_modules([str(Path(__file__).parent)]) if each.ispkg]
    return tuple(importlib.import_module(f"{__package__}.{name}.suite").SUITE for name in folders)


def suite_of(program: str) -> Suite:
    """Return the suite that results call `program`. Raises BenchmarkError - there is none."""
    for suite in suites():
        if suite.program == program:
            return suite
    raise BenchmarkError(f"the result is of {program}, which hedwig-bench does not know")
