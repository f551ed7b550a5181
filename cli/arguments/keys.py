"""Keys that the user presses while a command runs, one by one and without Enter; none without a terminal."""

import asyncio
import os
import sys
import termios
import tty
from types import TracebackType
from typing import Any, Self

__all__ = ["Keys"]


class Keys:
    """Reads the keys of standard input. Use it in a `with`, which restores the terminal at its end. Ctrl-C works."""

    def __init__(self) -> None:
        self._pressed: asyncio.Queue[str] = asyncio.Queue(maxsize=64)
        self._loop = asyncio.get_running_loop()
        self._descriptor: int | None = None
        self._before: list[Any] = []

    def __enter__(self) -> Self:
        if sys.stdin is not None and sys.stdin.isatty():  # Standard input may be closed.
            self._descriptor = sys.stdin.fileno()
            self._before = termios.tcgetattr(self._descriptor)
            tty.setcbreak(self._descriptor)
            self._loop.add_reader(self._descriptor, self._read)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor is not None:
            self._loop.remove_reader(self._descriptor)
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)

    async def next(self, within_s: float) -> str | None:
        """Return the next key; None if the user presses none within `within_s`."""
        try:
            async with asyncio.timeout(within_s):
                return await self._pressed.get()
        except TimeoutError:
            return None

    def _read(self) -> None:
        assert self._descriptor is not None, "nothing is read without a terminal"
        pressed = os.read(self._descriptor, 64)
        if not pressed:  # The terminal is gone.
            self._loop.remove_reader(self._descriptor)
        for key in pressed.decode(errors="replace"):
            if not self._pressed.full():
                self._pressed.put_nowait(key)
