"""SCRAM-SHA-256 (RFC 5802, RFC 7677), with the library scramp: passwords that no hub ever sees."""

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from scramp import ScramException, ScramMechanism
from scramp.core import ScramServer
from scramp.utils import ServerError

from hedwig.access.mechanisms import Mechanism
from hedwig.access.users import Verifier
from hedwig.errors import InvalidArgumentError

__all__ = [
    "BINDING",
    "ServerExchange",
    "WrongPasswordError",
    "make_verifier",
    "pretended",
    "stored_key_of",
]

_ITERATIONS: Final = 15_000
"""They cost the client some 10 ms, and whoever has stolen the records as much for each guess. A hub needs none."""
_PASSWORD_CHARACTERS_MIN: Final = 8
_SALT_BYTES: Final = 32
BINDING: Final = "tls-server-end-point"
"""How both sides name their connection: by the certificate of the hub (RFC 5929)."""


def make_verifier(password: str, beside: Verifier | None = None) -> Verifier:
    """Return what checks a password; with the salt of one that it is to count `beside`.

    Raises: InvalidArgumentError - it is too short, or has characters that no password can have.
    """
    if len(password) < _PASSWORD_CHARACTERS_MIN:
        raise InvalidArgumentError(f"a password has {_PASSWORD_CHARACTERS_MIN} characters or more")
    salt, iterations = secrets.token_bytes(_SALT_BYTES), _ITERATIONS
    if beside is not None:
        salt, iterations = beside.salt, beside.iterations
    try:
        salt, stored_key, server_key, iterations = ScramMechanism(Mechanism.SCRAM).make_auth_info(
            password, iterations, salt
        )
    except ScramException as exc:
        raise InvalidArgumentError(f"this cannot be a password: {exc}") from exc
    return Verifier(salt, iterations, stored_key, server_key)


def stored_key_of(password: str, like: Verifier) -> bytes | None:
    """Return the stored key of a password with the salt of a verifier; None if it can be no password. Takes 10 ms."""
    try:
        _, stored_key, _, _ = ScramMechanism(Mechanism.SCRAM).make_auth_info(password, like.iterations, like.salt)
    except (ScramException, ValueError):
        return None
    return bytes(stored_key)


def pretended(name: str, pepper: bytes) -> Verifier:
    """Return what seems to check the password of a user that does not exist, always the same for a name."""
    salt, stored_key, server_key = (
        hmac.new(pepper, what + name.encode(), hashlib.sha256).digest() for what in (b"salt ", b"stored ", b"server ")
    )
    return Verifier(salt[:_SALT_BYTES], _ITERATIONS, stored_key, server_key)


class WrongPasswordError(Exception):
    """The client does not know the password."""


class ServerExchange:
    """The side of a hub in one exchange. Errors of steps: InvalidArgumentError - the client's step makes no sense.

    A user with two passwords has two exchanges at a time, which say the same until the client has proved one of both.
    """

    def __init__(self, mechanism: str, find: Callable[[str], Sequence[Verifier]], binding: bytes | None) -> None:
        """`find` returns what checks the passwords of a user, one at least, all with one salt.

        `binding` is what the hub's end of the connection is known by; None if clients cannot bind to it.
        """
        self._mechanism = ScramMechanism(mechanism)
        self._find = find
        self._binding = None if binding is None else (BINDING, binding)
        self._servers: list[ScramServer] = []
        self.user = ""
        """Who the client says that it is."""
        self.latest = 0.0
        """Until when the client may take the last step, by the clock of whoever sets it."""

    def first(self, step: bytes) -> bytes:
        """Take the first step of a client, and return the answer."""
        text = _text(step)
        found: Sequence[Verifier] = ()

        def find(user: str) -> tuple[bytes, bytes, bytes, int]:
            nonlocal found
            self.user, found = user, self._find(user)
            return _as_scramp_has_it(found[0])

        with _making_sense():
            server = self._mechanism.make_server(find, self._binding)
            server.set_client_first(text)
            self._servers.append(server)
            for other in found[1:]:
                beside = self._mechanism.make_server(
                    lambda _: _as_scramp_has_it(other),  # noqa: B023
                    self._binding,
                    str(server.s_nonce),
                )
                beside.set_client_first(text)
                self._servers.append(beside)
            answers = [str(each.get_server_first()) for each in self._servers]
        return answers[0].encode()

    def last(self, step: bytes) -> bytes:
        """Take the last step of a client, and return the answer. Raises: WrongPasswordError."""
        text = _text(step)
        for server in self._servers:
            try:
                with _making_sense():
                    server.set_client_final(text)
                    return str(server.get_server_final()).encode()
            except WrongPasswordError:
                continue
        raise WrongPasswordError


def _as_scramp_has_it(verifier: Verifier) -> tuple[bytes, bytes, bytes, int]:
    return verifier.salt, verifier.stored_key, verifier.server_key, verifier.iterations


def _text(step: bytes) -> str:
    try:
        return step.decode()
    except UnicodeDecodeError as exc:
        raise InvalidArgumentError("a step of SCRAM is text in UTF-8") from exc


@contextmanager
def _making_sense() -> Iterator[None]:
    try:
        yield
    except ScramException as exc:
        if exc.server_error == ServerError.INVALID_PROOF:
            raise WrongPasswordError from exc
        raise InvalidArgumentError(f"this is no step of SCRAM: {exc}") from exc
    except (ValueError, TypeError, IndexError) as exc:
        raise InvalidArgumentError("this is no step of SCRAM") from exc
