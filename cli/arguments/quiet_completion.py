"""Asks a server while the user waits for completion: for a short time, and without any message."""

import threading
from collections.abc import Awaitable, Callable
from typing import Final

from click.shell_completion import CompletionItem

__all__ = ["COMPLETION_TIMEOUT_S", "complete_quietly"]

COMPLETION_TIMEOUT_S: Final = 2.0
_CLOSING_S: Final = 0.5


def complete_quietly(ask: Callable[[], Awaitable[list[str]]]) -> list[CompletionItem]:
    """Return what `ask` finds; nothing if it fails, or takes longer than a user waits at a prompt."""
    import asyncio  # Loading it takes longer than completing most words.

    names: list[str] = []

    async def run() -> None:
        async with asyncio.timeout(COMPLETION_TIMEOUT_S):
            names.extend(await ask())

    def work() -> None:
        try:
            asyncio.run(run())
        except Exception:
            return  # Completion in a shell shows no message, whatever the error is.

    # A client may wait for its own threads when it closes. The user at the prompt does not wait for those.
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(COMPLETION_TIMEOUT_S + _CLOSING_S)
    return [CompletionItem(name) for name in list(names)]
