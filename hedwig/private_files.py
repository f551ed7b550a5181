"""Files and directories that nobody reads but their owner, whatever the umask: messages and metadata are in them."""

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["PRIVATE", "close_to_others", "make_directory", "make_file", "user_data_directory"]

PRIVATE: Final = stat.S_IRUSR | stat.S_IWUSR
"""The mode of a new file."""


def user_data_directory() -> Path:
    """Return the directory of the user's Hedwig data, which may not exist yet."""
    base = Path(os.environ.get("XDG_DATA_HOME", ""))
    # The XDG specification has relative paths ignored.
    return (base if base.is_absolute() else Path.home() / ".local" / "share") / "hedwig"


def make_directory(path: Path) -> None:
    """Make a directory that only its owner enters; one that is there stays as it is.

    Directories above it that are missing are made as the umask says.
    """
    path.mkdir(mode=stat.S_IRWXU, parents=True, exist_ok=True)


def make_file(path: Path) -> None:
    """Make an empty file that only its owner reads; one that is there stays as it is."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE))


def close_to_others(path: Path) -> bool:
    """Take from all but the owner what they may do to a file or a directory; return whether that changed anything.

    Nothing happens if it is not there. Raises: OSError - another user owns it.
    """
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return False
    if not mode & (stat.S_IRWXG | stat.S_IRWXO):
        return False
    path.chmod(mode & stat.S_IRWXU)
    return True
