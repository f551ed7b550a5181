"""What an extra brings may not be installed: then one line says what to install.

Import what an extra brings inside `needed`. A program loads its commands inside `starting`.
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
    """Import inside what `extra` brings; the line about a package that is missing begins with `purpose`.

    Args: extra - of pyproject.toml, or several with commas between; purpose - such as "reports need";
        instead - what else may be done.
    Raises: MissingExtraError - a package that is not ours cannot be imported.
    """
    try:
        yield
    except MissingExtraError:
        raise  # What is loaded there has said it, and knows better.
    except ImportError as exc:
        if (missing := missing_extra(exc, extra, purpose, instead)) is None:
            raise
        raise missing from exc


def missing_extra(error: BaseException, extra: str, purpose: str, instead: str = "") -> MissingExtraError | None:
    """Return what to raise instead of `error`, None if that is about no package of others. Arguments: as `needed`."""
    if not isinstance(error, ImportError) or (error.name or "hedwig").partition(".")[0] == "hedwig":
        return None
    advice = f"in the checkout of hedwig: pip install '.[{extra}]'"
    otherwise = f"; or {instead}" if instead else ""
    return MissingExtraError(f"{purpose} {error.name}; {advice}{otherwise}", name=error.name)


@contextmanager
def starting(program: str, extra: str) -> Iterator[None]:
    """Load the commands of `program` inside; without its extra, end the process with one line and 2."""
    try:
        yield
    except ImportError as exc:
        if (missing := missing_extra(exc, extra, f"{program} needs")) is None:
            raise
        print(f"error: {missing}", file=sys.stderr)
        sys.exit(_USAGE)
