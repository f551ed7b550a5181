"""What a client says to hubs of who it is."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from hedwig.errors import ConfigurationError, CouldNotConnectError

__all__ = ["PasswordCredentials"]


@dataclass(frozen=True, slots=True)
class PasswordCredentials:
    """A user and its password. No hub ever sees the password, and neither does whoever listens (SCRAM, RFC 5802).

    `password` may be a function, which is asked at each new connection. So a program that runs can get another one.
    """

    user: str
    password: str | Callable[[], str] = field(repr=False)

    def __post_init__(self) -> None:
        if not all(isinstance(text, str) for text in (self.user, "" if callable(self.password) else self.password)):
            raise ConfigurationError("credentials are PasswordCredentials(user, password), both of type str")

    @classmethod
    def from_file(cls, user: str, path: Path) -> Self:
        """Return credentials with the password on the first line of a file, which is read at each new connection."""
        return cls(user, lambda: _first_line(path))

    def read(self) -> str:
        """Return the password. Raises: CouldNotConnectError - its file cannot be read."""
        return self.password if isinstance(self.password, str) else self.password()


def _first_line(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            return file.readline().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as exc:
        # It may be written at this moment, so the client tries again.
        raise CouldNotConnectError(f"cannot read the password in {path}: {exc}") from exc
