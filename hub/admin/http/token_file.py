"""The file with the token of the admin endpoint. Whoever can read the file may do everything there."""

import hashlib
import hmac
import logging
import stat
from pathlib import Path
from typing import Final

from hedwig.errors import ConfigurationError
from hedwig.private_files import make_directory, make_token

__all__ = ["TokenFile"]

_log = logging.getLogger(__name__)

_CHARACTERS_MIN: Final = 16
_FILE_BYTES_MAX: Final = 4096


class TokenFile:
    """The first line of a file is the token. The hub reads the file again when it changes, and keeps only a hash."""

    def __init__(self, path: Path, *, makes: bool) -> None:
        """Read the file; with `makes`, make it first if there is none. Raises: ConfigurationError."""
        self._path = path
        try:
            if makes and not path.exists():
                make_directory(path.parent)
                make_token(path)
            self._seen = self._state()
            self._hash: bytes | None = _hash(_read(path))
            if stat.S_IMODE(path.stat().st_mode) & stat.S_IRWXO:
                _log.warning("any user of this machine can read the token of the admin endpoint in %s", path)
        except OSError as exc:
            raise ConfigurationError(f"cannot use the token of the admin endpoint in {path}: {exc.strerror}") from exc

    def is_shown(self, text: str) -> bool:
        """Say whether a text is the token that the file has now."""
        self._look()
        return self._hash is not None and hmac.compare_digest(_hash(text), self._hash)

    def _look(self) -> None:
        seen = self._state()
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._hash = _hash(_read(self._path))
            _log.info("the token of the admin endpoint is the one in %s as changed", self._path)
        except (OSError, ConfigurationError) as exc:
            self._hash = None  # Who took the token away wants that nobody uses it.
            _log.error("the admin endpoint takes no token: %s: %s", self._path, exc)

    def _state(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size


def _read(path: Path) -> str:
    with path.open("rb") as file:
        lines = file.read(_FILE_BYTES_MAX).decode("ascii", "replace").splitlines()
    token = lines[0].strip() if lines else ""
    if len(token) < _CHARACTERS_MIN or not token.isascii() or " " in token:
        raise ConfigurationError(
            f"the first line of {path} is no token for the admin endpoint: it must have {_CHARACTERS_MIN} letters and "
            "digits or more"
        )
    return token


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
