"""The login of a client on a new connection."""

import asyncio
import hashlib
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from hedwig.access.mechanisms import Mechanism
from hedwig.access.oauthbearer import step_with
from hedwig.client.connections.routes import error_of
from hedwig.client.credentials import Credentials, PasswordCredentials, TokenCredentials
from hedwig.errors import InvalidArgumentError, NotAuthenticatedError
from hedwig.extras import needed
from hedwig.status import StatusCode
from hedwig.wire import Action, Answer, Authenticate, Authentication, RefusalKind

if TYPE_CHECKING:
    from scramp import ScramClient

__all__ = ["log_in"]


Ask: TypeAlias = Callable[[Action], Awaitable[Answer]]


async def log_in(credentials: Credentials, ask: Ask, secure: ssl.SSLObject | None) -> float | None:
    """Log in on a connection; return for how many seconds that counts, None for as long as the connection.

    Args: ask - sends a request on the connection, and returns its answer; secure - its TLS, if any.
    Raises: NotAuthenticatedError; CouldNotConnectError - the credentials cannot be read; any error of `ask`.
    """
    offered = (await _step(ask, "", b"")).mechanisms
    if isinstance(credentials, TokenCredentials):
        return await _show_token(credentials, ask, offered, secure)
    await _prove_password(credentials, ask, offered, secure)
    return None


async def _show_token(
    credentials: TokenCredentials, ask: Ask, offered: Sequence[str], secure: ssl.SSLObject | None
) -> float | None:
    if secure is None or Mechanism.TOKEN not in offered:
        raise NotAuthenticatedError("clients of this hub do not log in with tokens at this port")
    try:
        data = step_with(await credentials.read())
    except InvalidArgumentError as exc:
        raise NotAuthenticatedError(str(exc)) from exc
    expires_ms = (await _step(ask, Mechanism.TOKEN, data)).expires_ms
    return None if expires_ms is None else expires_ms / 1000


async def _prove_password(
    credentials: PasswordCredentials, ask: Ask, offered: Sequence[str], secure: ssl.SSLObject | None
) -> None:
    with needed("access", "logins need"):
        from scramp import ScramException
    usable = [each for each in offered if each == Mechanism.SCRAM or (each == Mechanism.SCRAM_PLUS and secure)]
    if not usable:
        raise NotAuthenticatedError("clients of this hub do not log in with passwords at this port")
    try:
        # A client with TLS says that it could bind its login, also if the hub seems not to. So nobody in between can
        # hide from both that the other one could.
        client = _scram_client(credentials, usable, secure)
        mechanism = client.mechanism_name
        first = await _step(ask, mechanism, client.get_client_first().encode())
        client.set_server_first(first.data.decode())
        # It takes some 10 ms of the processor.
        last = await asyncio.to_thread(client.get_client_final)
        final = await _step(ask, mechanism, last.encode())
        # So the hub knows the password too: it is not somebody who only says yes.
        client.set_server_final(final.data.decode())
    except (ScramException, UnicodeDecodeError) as exc:
        raise NotAuthenticatedError(f"the login with the hub failed: {exc}") from exc


def _scram_client(
    credentials: PasswordCredentials, usable: Sequence[str], secure: ssl.SSLObject | None
) -> "ScramClient":
    from scramp import ScramClient, ScramException

    from hedwig.access.scram import BINDING

    password = credentials.read()
    if secure is None:
        return ScramClient(usable, credentials.user, password)
    try:
        return ScramClient(usable, credentials.user, password, channel_binding=(BINDING, secure))
    except (ScramException, TypeError):
        # scramp knows no hash for this algorithm. Hubs of ours take this one then.
        binding = hashlib.sha256(secure.getpeercert(binary_form=True) or b"").digest()
        return ScramClient(usable, credentials.user, password, channel_binding=(BINDING, binding))


async def _step(ask: Ask, mechanism: str, data: bytes) -> Authentication:
    answer = await ask(Authenticate(mechanism, data))
    if answer.authentication is None or answer.status is not StatusCode.SUCCESS:
        raise _error_of(answer)
    return answer.authentication


def _error_of(answer: Answer) -> Exception:
    if answer.refusal is RefusalKind.NOT_AUTHENTICATED or answer.status is StatusCode.SERVICE_DOWN:
        return error_of(answer)
    return NotAuthenticatedError("the hub knows no logins; it may be one of the original, or an older one")
