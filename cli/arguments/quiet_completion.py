"""Asking a server while somebody waits for a word to be completed: shortly, and without a word of complaint."""

import threading
from collections.abc import Awaitable, Callable
from typing import Final

from click.shell_completion import CompletionItem

__all__ = ["COMPLETION_TIMEOUT_S", "complete_quietly"]

COMPLETION_TIMEOUT_S: Final = 2.0
_CLOSING_S: Final = 0.5


def complete_quietly(ask: Callable[[], Awaitable[list[str]]]) -> list[CompletionItem]:
    """Return what `ask` finds, nothing if that fails, or takes longer than anybody waits at a prompt."""
    import asyncio  # It takes longer to load than most words take to be completed.

    found: list[str] = []

    async def run() -> None:
        async with asyncio.timeout(COMPLETION_TIMEOUT_S):
            found.extend(await ask())

    def work() -> None:
        try:
            asyncio.run(run())
        except Exception:
            return  # A shell that completes has no place for complaints, whatever they are about.

    # A client may wait for threads of its own when it is closed; nobody at a prompt waits for those.
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(COMPLETION_TIMEOUT_S + _CLOSING_S)
    return [CompletionItem(name) for name in list(found)]
