"""The TLS settings of a hub's listener."""

import ssl

from hedwig.errors import ConfigurationError
from hedwig.hub.options.options import HubOptions

__all__ = ["tls_context"]


def tls_context(options: HubOptions) -> ssl.SSLContext | None:
    """Return the TLS settings of the hub; None for no TLS listener. Raises: ConfigurationError."""
    if options.tls_port < 0:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # The original client's TLS layer fails at random with TLS 1.3.
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    try:
        # Without a password, OpenSSL would ask for one on the terminal, and the hub would wait for it.
        context.load_cert_chain(options.tls_certificate, options.tls_key or None, password="")
    except (OSError, ssl.SSLError) as exc:
        raise ConfigurationError(
            f"cannot use the TLS certificate {options.tls_certificate}: {exc}; "
            "it must be PEM; its private key, in the same file or in tls_key, must have no password"
        ) from exc
    if options.access.client_ca:
        # The original's clients have none, and go on without.
        context.verify_mode = ssl.CERT_OPTIONAL
        try:
            context.load_verify_locations(options.access.client_ca)
        except (OSError, ssl.SSLError) as exc:
            raise ConfigurationError(
                f"cannot use the authorities in access.client_ca, {options.access.client_ca}: {exc}; it must be PEM"
            ) from exc
    return context
