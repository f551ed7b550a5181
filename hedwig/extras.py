"""Imports from the packages of an extra. If they are not installed, one line says which extra to install.

Import packages of an extra inside `needed`. A program loads its commands inside `starting`.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from hedwig.errors import MissingExtraError

__all__ = ["missing_extra", "needed", "starting"]

_USAGE = 2
"""As in `exit_codes`."""


@contextmanager
def needed(extra: str, purpose: str, instead: str = "") -> Iterator[None]:
    """Import packages of `extra` in the body. The line about a missing package begins with `purpose`.

    Args: extra - an extra of pyproject.toml, or several separated by commas; purpose - such as "reports need";
        instead - what the user may do otherwise.
    Raises: MissingExtraError - a third-party package cannot be imported.
    """
    try:
        yield
    except MissingExtraError:
        raise  # The imported module has raised it, and names the extra more exactly.
    except ImportError as exc:
        if (missing := missing_extra(exc, extra, purpose, instead)) is None:
            raise
        raise missing from exc


def missing_extra(error: BaseException, extra: str, purpose: str, instead: str = "") -> MissingExtraError | None:
    """Return the error to raise instead of `error`; None if no third-party package is missing. Args as of `needed`."""
    if not isinstance(error, ImportError) or (error.name or "hedwig").partition(".")[0] == "hedwig":
        return None
    advice = f"in the checkout of hedwig: pip install '.[{extra}]'"
    otherwise = f"; or {instead}" if instead else ""
    return MissingExtraError(f"{purpose} {error.name}; {advice}{otherwise}", name=error.name)


@contextmanager
def starting(program: str, extra: str) -> Iterator[None]:
    """Load the commands of `program` in the body; without its extra, end the process with one line and exit code 2."""
    try:
        yield
    except ImportError as exc:
        if (missing := missing_extra(exc, extra, f"{program} needs")) is None:
            raise
        print(f"error: {missing}", file=sys.stderr)
        sys.exit(_USAGE)
