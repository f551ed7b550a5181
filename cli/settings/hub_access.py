"""How a command reaches hubs: which hub it asks first, whether over TLS, and how it reports the errors of hubs."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from hedwig.cli.arguments.option_group import option_group
from hedwig.cli.settings.setting_options import hub_setting_options
from hedwig.cli.settings.settings import Settings, current_settings
from hedwig.cli.settings.tls_settings import chosen_tls
from hedwig.client import ClientOptions, HedwigClient, HubAddress, PasswordCredentials
from hedwig.errors import (
    ConfigurationError,
    OperationError,
    ProtocolError,
    ServiceError,
    SubscriptionClosedError,
    exit_code_of,
)
from hedwig.operations.errors import explain

__all__ = ["HubAccess", "client_options", "hub_errors", "hub_options", "with_hub"]

T = TypeVar("T")

_CONNECT_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HubAccess:
    """The hub to ask first. Any hub will do, since hubs redirect.

    `tls` is None for connections without TLS, and `credentials` for those without a login.
    """

    address: HubAddress
    tls: ssl.SSLContext | None = None
    credentials: PasswordCredentials | None = None

    @classmethod
    def of(cls, settings: Settings) -> "HubAccess":
        """Make it from the chosen settings. Raises ConfigurationError."""
        address = HubAddress.parse(str(settings.chosen("hub").value))
        tls = chosen_tls(settings)
        authority = tls["tls_ca"].value
        credentials = _credentials(settings)
        if not tls["tls"].value:
            return cls(address=address, credentials=credentials)
        if address.ssl_port is None:
            raise ConfigurationError(
                f"hubs speak TLS on a separate port; give --hub {address.host}:{address.port}:TLSPORT"
            )
        if tls["tls_insecure"].value:
            return cls(address=address, tls=_insecure(), credentials=credentials)
        context = _verifying(None if authority is None else str(authority))
        return cls(address=address, tls=context, credentials=credentials)


def hub_options() -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the options of a command that talks to hubs. The command gets them as `hub`."""
    return option_group("hub", hub_setting_options(), (), lambda _: HubAccess.of(current_settings()))


def with_hub(
    settings: Settings, hub: HubAccess, subject: str, work: Callable[[HedwigClient], Awaitable[T]], **options: Any
) -> T:
    """Open a client, and return what `work` returns. Ctrl-C cancels `work` and closes the client.

    Args: subject - what the command is about, for errors; options - further ClientOptions.
    Raises: OperationError - a hub refused, failed or could not be reached, in one line.
    """
    made = client_options(settings, hub, **options)

    async def run() -> T:
        async with HedwigClient(made) as client:
            return await work(client)

    with hub_errors(settings, hub, subject):
        return asyncio.run(run())


def client_options(settings: Settings, hub: HubAccess, **options: Any) -> ClientOptions:
    """Return the options of a client that asks `hub` first."""
    timeout_s = settings.deployment.timeout_s
    return ClientOptions(
        hub=hub.address,
        tls=hub.tls,
        credentials=hub.credentials,
        answer_timeout_s=timeout_s,
        connect_timeout_s=min(timeout_s, _CONNECT_TIMEOUT_S),
        **options,
    )


@contextmanager
def hub_errors(settings: Settings, hub: HubAccess, subject: str) -> Iterator[None]:
    """Turn a refusal or failure of a hub into an OperationError of one line. `subject`: what the command is about."""
    try:
        yield
    except (ServiceError, ProtocolError, SubscriptionClosedError) as exc:
        said = explain(exc, str(hub.address))
        raise OperationError(f"{settings.command} failed on {subject}: {said}", exit_code_of(exc)) from exc


def _credentials(settings: Settings) -> PasswordCredentials | None:
    user, file = settings.chosen("user").value, settings.chosen("password_file").value
    if user is None and file is None:
        return None
    if user is None or file is None:
        raise ConfigurationError("give --user and --password-file, or neither")
    return PasswordCredentials.from_file(str(user), Path(str(file)))


def _verifying(authority: str | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError) as exc:
        raise ConfigurationError(f"the file {authority} holds no certificates in PEM form: {exc}") from exc
    # Hubs redirect to addresses, not names. With an authority of the hubs' own, a valid certificate proves that the
    # server is a hub. A public authority certifies any server, so the host name must be checked.
    context.check_hostname = authority is None
    return context


def _insecure() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
