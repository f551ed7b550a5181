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
from hedwig.operations.deployment.admin_access import AdminAccess
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
        access = settings.admin_access()
        credentials = _credentials(access)
        if not tls["tls"].value:
            return cls(address=address, credentials=credentials)
        if address.ssl_port is None:
            raise ConfigurationError(
                f"hubs speak TLS on a separate port; give --hub {address.host}:{address.port}:TLSPORT"
            )
        return cls(address=address, tls=access.tls(), credentials=credentials)


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


def _credentials(access: AdminAccess) -> PasswordCredentials | None:
    if access.user is None or access.password_file is None:
        return None
    return PasswordCredentials.from_file(access.user, Path(access.password_file))
