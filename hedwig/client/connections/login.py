"""The login of a client on a new connection."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable

from hedwig.access.mechanisms import Mechanism
from hedwig.client.connections.routes import error_of
from hedwig.client.credentials import PasswordCredentials
from hedwig.errors import NotAuthenticatedError
from hedwig.extras import needed
from hedwig.status import StatusCode
from hedwig.wire import Action, Answer, Authenticate, RefusalKind

__all__ = ["log_in"]


async def log_in(
    credentials: PasswordCredentials, ask: Callable[[Action], Awaitable[Answer]], secure: ssl.SSLObject | None
) -> None:
    """Log in on a connection, on which `ask` sends a request and returns its answer; `secure` is its TLS, if any.

    Raises: NotAuthenticatedError; CouldNotConnectError - the password cannot be read; any error of `ask`.
    """
    with needed("access", "logins need"):
        from scramp import ScramClient, ScramException

        from hedwig.access.scram import BINDING

    async def step(mechanism: str, data: str) -> tuple[tuple[str, ...], str]:
        answer = await ask(Authenticate(mechanism, data.encode()))
        if answer.authentication is None or answer.status is not StatusCode.SUCCESS:
            raise _error_of(answer)
        try:
            return answer.authentication.mechanisms, answer.authentication.data.decode()
        except UnicodeDecodeError as exc:
            raise NotAuthenticatedError("the hub does not speak SCRAM") from exc

    offered, _ = await step("", "")
    usable = [each for each in offered if each == Mechanism.SCRAM or (each == Mechanism.SCRAM_PLUS and secure)]
    if not usable:
        raise NotAuthenticatedError("clients of this hub do not log in with passwords at this port")
    password = credentials.read()
    try:
        binding = (BINDING, secure) if secure is not None and Mechanism.SCRAM_PLUS in usable else None
        client = ScramClient(usable, credentials.user, password, channel_binding=binding)
        _, first = await step(client.mechanism_name, client.get_client_first())
        client.set_server_first(first)
        # It takes some 10 ms of the processor.
        last = await asyncio.to_thread(client.get_client_final)
        _, final = await step(client.mechanism_name, last)
        # So the hub knows the password too: it is not somebody who only says yes.
        client.set_server_final(final)
    except ScramException as exc:
        raise NotAuthenticatedError(f"the login with the hub failed: {exc}") from exc


def _error_of(answer: Answer) -> Exception:
    if answer.refusal is RefusalKind.NOT_AUTHENTICATED or answer.status is StatusCode.SERVICE_DOWN:
        return error_of(answer)
    return NotAuthenticatedError("the hub knows no logins; it may be one of the original, or an older one")
