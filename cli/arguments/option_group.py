"""Options that belong together: declared once, and passed to a command as one value."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["option_group"]

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def option_group(
    argument: str, options: Sequence[Decorator], names: Sequence[str], gather: Callable[[Mapping[str, Any]], Any]
) -> Decorator:
    """Return a decorator that adds `options` to a command.

    `gather` turns the parameters `names` into one value. The command gets that value as `argument` instead of them.
    """

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def call(*args: Any, **params: Any) -> Any:
            own = {name: params.pop(name) for name in names}
            return command(*args, **{argument: gather(own)}, **params)

        decorated: Callable[..., Any] = call
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return add
