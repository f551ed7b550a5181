"""Files and directories that only their owner can read, for any umask, since they hold messages and metadata."""

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = [
    "ADMIN_TOKEN",
    "PRIVATE",
    "close_to_others",
    "make_directory",
    "make_file",
    "make_token",
    "user_data_directory",
    "write_private",
]

PRIVATE: Final = stat.S_IRUSR | stat.S_IWUSR
"""The mode of a new file."""
ADMIN_TOKEN: Final = "admin-token"
"""The file in the data directory of a hub that has the token of its admin endpoint."""
_TOKEN_BYTES: Final = 32
"""What is random in a token."""


def user_data_directory() -> Path:
    """Return the directory of the user's Hedwig data, which may not exist yet."""
    base = Path(os.environ.get("XDG_DATA_HOME", ""))
    # The XDG specification says to ignore relative paths.
    return (base if base.is_absolute() else Path.home() / ".local" / "share") / "hedwig"


def make_directory(path: Path) -> None:
    """Create a directory that only its owner can enter. An existing one stays unchanged.

    Missing parent directories get the mode that the umask gives.
    """
    path.mkdir(mode=stat.S_IRWXU, parents=True, exist_ok=True)


def make_file(path: Path) -> None:
    """Create an empty file that only its owner can read. An existing one stays unchanged."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE))


def make_token(path: Path, *, replaces: bool = False) -> bool:
    """Write a new token at random, which only the owner of the file can read; return whether that was done.

    An existing file stays unchanged, unless `replaces`. Programs that make the file at a time agree on one token.

    Raises: OSError.
    """
    import secrets  # Every command loads this module, even for completion in a shell.

    return write_private(path, f"{secrets.token_urlsafe(_TOKEN_BYTES)}\n", replaces=replaces)


def write_private(path: Path, text: str, *, replaces: bool = False) -> bool:
    """Write a file, whole or not at all, that only its owner can read; return whether that was done.

    An existing file stays unchanged, unless `replaces`. Raises: OSError.
    """
    import tempfile

    descriptor, made = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # Only its owner can read it.
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if replaces:
            Path(made).replace(path)
            return True
        try:
            path.hardlink_to(made)
        except FileExistsError:
            return False
        return True
    finally:
        Path(made).unlink(missing_ok=True)


def close_to_others(path: Path) -> bool:
    """Remove all permissions of other users from a file or a directory; return whether that changed anything.

    A missing file is ignored.

    Raises: OSError - another user owns it.
    """
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return False
    if not mode & (stat.S_IRWXG | stat.S_IRWXO):
        return False
    path.chmod(mode & stat.S_IRWXU)
    return True
