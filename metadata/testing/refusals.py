"""Refusals that come before anything is sent."""

from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["refused_at_once"]

E = TypeVar("E", bound=Exception)


def refused_at_once(call: Coroutine[Any, Any, Any], error: type[E]) -> E:
    """Run `call`, which must raise `error` before it waits for anything; return that error.

    Raises: AssertionError - it began to wait for a thread, a lock or a connection, so it may have sent something.
    """
    try:
        call.send(None)
    except error as refusal:
        return refusal
    except StopIteration as done:
        raise AssertionError(f"answered {done.value!r}, but {error.__name__} was to come") from None
    finally:
        call.close()
    raise AssertionError(f"began to wait, but {error.__name__} was to come first")
