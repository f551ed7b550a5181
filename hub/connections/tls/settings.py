"""The TLS settings of a hub's listeners."""

import ssl
from dataclasses import dataclass
from typing import Final

from hedwig.errors import ConfigurationError
from hedwig.hub.options.listener_options import ClientCertificates, TlsVersion
from hedwig.hub.options.options import HubOptions

__all__ = ["TlsSettings", "check_tls", "tls_context"]

_VERIFY: Final = {
    ClientCertificates.NONE: ssl.CERT_NONE,
    ClientCertificates.OPTIONAL: ssl.CERT_OPTIONAL,
    ClientCertificates.REQUIRED: ssl.CERT_REQUIRED,
}
_CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Those of TLS 1.2 that authenticate what they encrypt, with keys of their own for each connection. 1.3 has no others.

The original's clients offer some of them, as Java does since its version 8.
"""


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """What is particular to one listener: a TlsVersion, and ClientCertificates."""

    version: str
    client_certificates: str

    @classmethod
    def of_the_hub(cls, options: HubOptions) -> "TlsSettings":
        """Return those of the hub's own TLS port. The original's clients come there, and have no certificates."""
        has_authorities = bool(options.access.client_ca)
        return cls(
            TlsVersion.FOR_ORIGINALS, ClientCertificates.OPTIONAL if has_authorities else ClientCertificates.NONE
        )

    @classmethod
    def of_the_admin_endpoint(cls, options: HubOptions) -> "TlsSettings":
        """Return those of the admin endpoint, whose clients may show certificates if the hub knows authorities."""
        has_authorities = bool(options.access.client_ca)
        return cls(TlsVersion.NEWEST, ClientCertificates.OPTIONAL if has_authorities else ClientCertificates.NONE)


def check_tls(options: HubOptions) -> None:
    """Raise ConfigurationError if a listener could not use the files that the options name."""
    if options.tls_port >= 0:
        tls_context(options, TlsSettings.of_the_hub(options))
    if options.has_admin_tls:
        tls_context(options, TlsSettings.of_the_admin_endpoint(options))
    for each in options.listeners.values():
        if each.tls:
            tls_context(options, TlsSettings(each.tls, each.client_certificates))


def tls_context(options: HubOptions, settings: TlsSettings) -> ssl.SSLContext:
    """Return the settings of a listener, with what the files have now. Raises: ConfigurationError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if settings.version == TlsVersion.FOR_ORIGINALS:
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    else:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_ciphers(_CIPHERS)
    try:
        # Without a password, OpenSSL would ask for one on the terminal, and the hub would wait for it.
        context.load_cert_chain(options.tls_certificate, options.tls_key or None, password="")
    except (OSError, ssl.SSLError) as exc:
        raise ConfigurationError(
            f"cannot use the TLS certificate {options.tls_certificate}: {exc}; "
            "it must be PEM; its private key, in the same file or in tls_key, must have no password"
        ) from exc
    context.verify_mode = _VERIFY[settings.client_certificates]
    if settings.client_certificates:
        try:
            context.load_verify_locations(options.access.client_ca)
        except (OSError, ssl.SSLError) as exc:
            raise ConfigurationError(
                f"cannot use the authorities in access.client_ca, {options.access.client_ca}: {exc}; it must be PEM"
            ) from exc
        if options.access.client_crl:
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
            try:
                context.load_verify_locations(options.access.client_crl)
            except (OSError, ssl.SSLError) as exc:
                raise ConfigurationError(
                    f"cannot use the revocation lists in access.client_crl, {options.access.client_crl}: {exc}"
                ) from exc
    return context
