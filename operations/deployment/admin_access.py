"""How commands say who they are to the admin endpoints of hubs, and which of these they trust.

Every command loads this module, even for completion in a shell. So it loads little.
"""

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hedwig.errors import ConfigurationError
from hedwig.private_files import ADMIN_TOKEN, user_data_directory

if TYPE_CHECKING:
    import ssl

__all__ = ["AdminAccess", "is_loopback", "trust"]

_FILE_BYTES_MAX: Final = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminAccess:
    """What the user named to reach admin endpoints; None for what the user did not name.

    Args:
        token_file: file with a token, which counts before all else.
        user, password_file: a user with a password.
        data: data directory of a hub on this machine, which may have its token; None: the user's.
        authority: PEM file with the authority of the hubs' certificates.
        is_insecure: trust any hub.
        certificate: PEM file with a client certificate and its key.
        is_plain: send secrets without TLS to other machines, too.
    """

    token_file: str | None = None
    user: str | None = None
    password_file: str | None = None
    data: str | None = None
    authority: str | None = None
    is_insecure: bool = False
    certificate: str | None = None
    is_plain: bool = False

    def may_send(self, host: str, *, has_tls: bool) -> bool:
        """Say whether secrets may go to a host: nobody reads them on the way, or the user does not mind."""
        return has_tls or self.is_plain or is_loopback(host)

    def header(self, host: str) -> str | None:
        """Return the Authorization header of a request to a host; None if the user has named nothing to show.

        Raises: ConfigurationError - a file that was named cannot be read.
        """
        if self.token_file is not None:
            return f"Bearer {_first_line(self.token_file)}"
        if self.user is not None and self.password_file is not None:
            shown = f"{self.user}:{_first_line(self.password_file)}"
            return f"Basic {base64.b64encode(shown.encode()).decode()}"
        if not is_loopback(host):
            return None
        path = (user_data_directory() if self.data is None else Path(self.data)) / ADMIN_TOKEN
        try:
            return f"Bearer {_first_line(str(path))}"
        except ConfigurationError:  # There is none, or it is another user's.
            return None

    def tls(self) -> "ssl.SSLContext":
        """Return the settings of connections with TLS. Raises: ConfigurationError - a file cannot be used."""
        return trust(self.authority, is_insecure=self.is_insecure, certificate=self.certificate)


def trust(authority: str | None, *, is_insecure: bool, certificate: str | None) -> "ssl.SSLContext":
    """Return the settings of a client that trusts hubs of an authority, else of the system's, or any.

    Raises: ConfigurationError - a file cannot be used.
    """
    import ssl

    try:
        context = ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError) as exc:
        raise ConfigurationError(f"the file {authority} holds no certificates in PEM form: {exc}") from exc
    # Hubs redirect to addresses, not names. With an authority of the hubs' own, a valid certificate proves that the
    # server is a hub. A public authority certifies any server, so the host name must be checked.
    context.check_hostname = authority is None and not is_insecure
    if is_insecure:
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        try:
            # Without a password, OpenSSL would ask for one on the terminal.
            context.load_cert_chain(certificate, password="")
        except (OSError, ssl.SSLError) as exc:
            raise ConfigurationError(
                f"the file {certificate} holds no certificate with its key in PEM form, or the key has a password: "
                f"{exc}"
            ) from exc
    return context


def is_loopback(host: str) -> bool:
    """Say whether an address means a different machine on each machine that reads it."""
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _first_line(name: str) -> str:
    try:
        with Path(name).open("rb") as file:
            lines = file.read(_FILE_BYTES_MAX).decode().splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else "it is no text"
        raise ConfigurationError(f"cannot read the secret in {name}: {why}") from exc
    if not lines or not lines[0].strip():
        raise ConfigurationError(f"cannot read the secret in {name}: its first line is empty")
    if not lines[0].strip().isprintable():
        raise ConfigurationError(f"cannot read the secret in {name}: its first line is no text")
    return lines[0].strip()
