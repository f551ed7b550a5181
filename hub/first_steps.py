"""The text for a new user: a hub on the store that hedwig-admin uses by default, and two commands to try."""

import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

__all__ = ["DATA_ORIGIN", "first_steps"]

DATA_ORIGIN: Final = "flag --first-steps"
_DEFAULT_HUB: Final = "127.0.0.1:4080"


def first_steps(address: str, data: Path) -> str:
    """Return the text for a user who has just started a first hub, at `address`, host:port."""
    admin = _admin_program()
    hub = "" if address == _DEFAULT_HUB else f" --hub {shlex.quote(address)}"
    return "\n".join(
        (
            "",
            f"Messages and metadata are kept in {data}",
            "Try it in two other terminals:",
            "",
            f"    {admin} subscribe news reader --follow{hub}",
            f"    {admin} publish news 'hello, world'{hub}",
            "",
            "Ctrl-C ends the hub; started again, it goes on where it was.",
        )
    )


def _admin_program() -> str:
    """Return the command by which this user runs hedwig-admin: it is on the path, or beside the interpreter."""
    beside = Path(sys.executable).with_name("hedwig-admin")
    if shutil.which("hedwig-admin") or not beside.exists():
        return "hedwig-admin"
    here = Path.cwd()
    return shlex.quote(str(beside.relative_to(here) if beside.is_relative_to(here) else beside))
