"""What a client says to hubs of who it is."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from inspect import isawaitable
from pathlib import Path
from typing import Self, TypeAlias

from hedwig.errors import ConfigurationError, CouldNotConnectError

__all__ = ["Credentials", "PasswordCredentials", "TokenCredentials"]


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
        """Return the password. Raises: CouldNotConnectError - its file cannot be read, or the function has failed."""
        if isinstance(self.password, str):
            return self.password
        with _giving():
            return _text(self.password())


@dataclass(frozen=True, slots=True)
class TokenCredentials:
    """A token (JWT) of an issuer that the hubs trust, which says who the client is. It is shown over TLS only.

    `token` may be a function, which must not block, or a coroutine function. It is asked at each new connection, and
    when four fifths of the time have passed for which the last one counts. So connections go on.
    """

    token: str | Callable[[], str | Awaitable[str]] = field(repr=False)

    def __post_init__(self) -> None:
        if not (isinstance(self.token, str) or callable(self.token)):
            raise ConfigurationError("credentials are TokenCredentials(token), of type str")

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """Return credentials with the token on the first line of a file, which is read whenever it is needed."""
        return cls(lambda: _first_line(path))

    async def read(self) -> str:
        """Return the token. Raises: CouldNotConnectError - its file cannot be read, or the function has failed."""
        if isinstance(self.token, str):
            return self.token
        with _giving():
            given = self.token()
            return _text(await given if isawaitable(given) else given)


Credentials: TypeAlias = PasswordCredentials | TokenCredentials


@contextmanager
def _giving() -> Iterator[None]:
    """Turn what a function of the application raises into an error after which the client tries again."""
    try:
        yield
    except CouldNotConnectError:
        raise
    except Exception as exc:
        raise CouldNotConnectError(f"the function that gives the credentials has failed: {exc!r}") from exc


def _text(given: object) -> str:
    if not isinstance(given, str):
        raise TypeError(f"it returned {type(given).__name__}, and not str")
    return given


def _first_line(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            return file.readline().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as exc:
        # It may be written at this moment, so the client tries again.
        raise CouldNotConnectError(f"cannot read the credentials in {path}: {exc}") from exc
