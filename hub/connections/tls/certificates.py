"""What a hub must know of certificates beside what OpenSSL does: when they end, and which are revoked."""

import asyncio
import hashlib
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, Self

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import SignatureAlgorithmOID

from hedwig.errors import ConfigurationError

__all__ = ["Connection", "OwnCertificate", "RevocationLists", "close_as_revoked", "close_ended"]

_log = logging.getLogger(__name__)

_END_OF_LIST: Final = b"-----END X509 CRL-----"
_SLICE: Final = 500
"""How many certificates are looked up before other tasks run."""


@dataclass(frozen=True, slots=True)
class OwnCertificate:
    """The certificate of the hub. `ends_at`: seconds since 1970.

    `end_point` is what the hub's end of a connection is known by (RFC 5929).
    """

    ends_at: float
    end_point: bytes

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the first certificate of a PEM file. Raises: ConfigurationError - there is none."""
        try:
            found = x509.load_pem_x509_certificates(path.read_bytes())[0]
        except (OSError, ValueError) as exc:
            raise ConfigurationError(f"cannot read the TLS certificate {path}: {exc}") from exc
        end_point = hashlib.new(_hash_of(found), found.public_bytes(Encoding.DER)).digest()
        return cls(found.not_valid_after_utc.timestamp(), end_point)


def _hash_of(certificate: x509.Certificate) -> str:
    """Return the hash by which the end of a connection is known (RFC 5929), also where that document names none."""
    algorithm = certificate.signature_hash_algorithm
    if algorithm is None:
        # As the library of clients, scramp, has it.
        return "sha512" if certificate.signature_algorithm_oid == SignatureAlgorithmOID.ED25519 else "sha256"
    return "sha256" if algorithm.name in ("md5", "sha1") else algorithm.name


class RevocationLists:
    """The revocation lists in a PEM file, one for each authority."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises: ConfigurationError - it has no list, or what is none."""
        try:
            parts = path.read_bytes().split(_END_OF_LIST)[:-1]
            lists = [x509.load_pem_x509_crl(part + _END_OF_LIST) for part in parts]
        except (OSError, ValueError) as exc:
            raise ConfigurationError(f"cannot read the revocation lists in access.client_crl, {path}: {exc}") from exc
        if not lists:
            raise ConfigurationError(f"access.client_crl, {path}, has no revocation list; it must be PEM")
        self._lists: Mapping[x509.Name, x509.CertificateRevocationList] = {each.issuer: each for each in lists}

    @property
    def overdue(self) -> tuple[str, ...]:
        """The authorities that should have made their next list by now. OpenSSL takes none of their certificates."""
        now = time.time()
        return tuple(
            name.rfc4514_string()
            for name, each in self._lists.items()
            if each.next_update_utc is not None and each.next_update_utc.timestamp() < now
        )

    def has(self, certificate: bytes) -> bool:
        """Say whether a certificate, in DER, is revoked. One that cannot be read counts as such."""
        try:
            shown = x509.load_der_x509_certificate(certificate)
        except ValueError:  # OpenSSL has taken it nevertheless.
            return True
        found = self._lists.get(shown.issuer)
        return found is not None and found.get_revoked_certificate_by_serial_number(shown.serial_number) is not None


class Connection(Protocol):
    """The connection of a client."""

    peer: str
    ends_at: float
    """When its certificate or token ends, in seconds since 1970; infinite if it has none."""

    @property
    def certificate_der(self) -> bytes | None: ...
    def close(self) -> None: ...


async def close_ended(connections: Iterable[Connection], now: float, lists: RevocationLists | None) -> None:
    """Close the connections whose certificate or token has ended, or is in `lists`. `now`: seconds since 1970."""
    looked = 0
    for each in list(connections):
        if each.ends_at < now:
            _log.info("%s: closing the connection: its certificate or token has ended", each.peer)
            each.close()
        elif lists is not None and (certificate := each.certificate_der) is not None:
            looked += 1
            if looked % _SLICE == 0:
                await asyncio.sleep(0)
            if lists.has(certificate):
                close_as_revoked(each)


def close_as_revoked(connection: Connection) -> None:
    """Close a connection whose certificate is revoked."""
    _log.info("%s: closing the connection: its certificate is revoked", connection.peer)
    connection.close()
