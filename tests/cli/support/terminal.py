"""hedwig-admin in a real terminal of 80 columns, that of tmux: what the screen shows, and pressed keys."""

import os
import shlex
import subprocess
import sys
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.cli.support.admin import Admin, wait_until
from tests.support.checkout import CHECKOUT

__all__ = ["COLUMNS", "LINES", "Terminal"]

COLUMNS: Final = 80
LINES: Final = 24
_PROGRAM: Final = (
    sys.executable,
    "-c",
    "import sys; sys.argv[0] = 'hedwig-admin'; from hedwig.cli.main import main; main()",
)
_END_S: Final = 30.0


class Terminal:
    """A terminal in which a command runs, and then prints `ended N`, its exit code. Use it with `with`.

    `into`: the file that is its standard output instead of the terminal. `program`: what runs in place of hedwig-admin.
    """

    def __init__(
        self,
        admin: Admin,
        *arguments: str,
        into: Path | None = None,
        program: Sequence[str] = _PROGRAM,
        **environment: str,
    ) -> None:
        self._server = f"hedwig-{uuid.uuid4().hex}"
        self._directory = admin.directory
        given = {**admin.environment, "PYTHONPATH": str(CHECKOUT), **environment}
        settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in given.items())
        # Left open, so that the screen shows how the command ended.
        redirection = "" if into is None else f" > {shlex.quote(str(into))}"
        self._script = f"env {settings} {shlex.join((*program, *arguments))}{redirection}; echo ended $?; sleep 600"

    def __enter__(self) -> Self:
        environment = {name: value for name, value in os.environ.items() if name not in ("TMUX", "COLUMNS", "LINES")}
        self._tmux(
            *("-f", "/dev/null", "new-session", "-d", "-x", str(COLUMNS), "-y", str(LINES), self._script),
            environment=environment | {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"},
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tmux("kill-server")

    @property
    def screen(self) -> list[str]:
        """Return the lines that are on the screen now."""
        return self._tmux("capture-pane", "-p").splitlines()

    def press(self, *keys: str) -> None:
        """Press keys by their names in tmux, such as `q`, `Enter`, `C-c`, `Tab`."""
        self._tmux("send-keys", *keys)

    def type(self, line: str) -> None:
        """Type a line, and Enter."""
        self._tmux("send-keys", "-l", line)
        self.press("Enter")

    def wait_for(self, condition: Callable[[list[str]], object], what: str) -> list[str]:
        """Return the screen once it fulfils a condition; fail, and show it, if that takes too long."""
        seen: list[str] = []

        def look() -> bool:
            seen[:] = self.screen
            return bool(condition(seen))

        try:
            wait_until(look, what)
        except AssertionError as exc:
            raise AssertionError(f"{exc}; the screen shows:\n" + "\n".join(seen)) from None
        assert max(map(len, seen), default=0) <= COLUMNS
        return seen

    def wait_for_line(self, part: str) -> list[str]:
        """Return the screen once one of its lines contains this text."""
        return self.wait_for(lambda screen: any(part in line for line in screen), f"a line with {part!r}")

    def _tmux(self, *arguments: str, environment: dict[str, str] | None = None) -> str:
        ran = subprocess.run(
            ["tmux", "-L", self._server, *arguments],
            capture_output=True,
            cwd=self._directory,
            env=environment,
            timeout=_END_S,
            check=True,
        )
        return ran.stdout.decode()
