"""Certificates for hubs and clients, and the TLS settings of a client that trusts any hub."""

import ssl
import subprocess
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

__all__ = ["Authority", "make_certificate", "trusting"]


def make_certificate(folder: Path) -> Path:
    """Return a PEM file with a key and a self-signed certificate."""
    key, certificate, both = folder / "key.pem", folder / "certificate.pem", folder / "both.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=hub"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True, timeout=60)
    both.write_bytes(key.read_bytes() + certificate.read_bytes())
    return both


def trusting() -> ssl.SSLContext:
    """Return the settings of a client that accepts any certificate, as the Java client does."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class Authority:
    """An authority, the certificates that it signs, and its list of those that it has revoked."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._key = generate_private_key(SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"authority {folder.name}")])
        self.certificate = folder / "ca.pem"
        own = self._certificate(self._name, self._key, 30.0)
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.certificate.write_bytes(own.sign(self._key, SHA256()).public_bytes(Encoding.PEM))
        self.revocations = folder / "crl.pem"
        self._folder = folder
        self._serials: dict[str, int] = {}
        self.revoke()

    def client(self, name: str, uri: str | None = None, days: float = 2.0) -> ssl.SSLContext:
        """Return the settings of a client with a certificate of this authority, valid for the next `days`."""
        context = trusting()
        context.load_cert_chain(self.sign(name, uri, days))
        return context

    def sign(self, name: str, uri: str | None = None, days: float = 2.0, *, address: str | None = None) -> Path:
        """Return a PEM file with a key, and a certificate of this authority that is valid for the next `days`.

        It is for a server at an IP `address`, if there is one.
        """
        key = generate_private_key(SECP256R1())
        made = self._certificate(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key, days)
        other: x509.GeneralName
        if address is not None:
            other = x509.IPAddress(ip_address(address))
        else:
            other = x509.DNSName("anywhere.example") if uri is None else x509.UniformResourceIdentifier(uri)
        signed = made.add_extension(x509.SubjectAlternativeName([other]), critical=False).sign(self._key, SHA256())
        self._serials[name] = signed.serial_number
        file = self._folder / f"{name}.pem"
        plain = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        file.write_bytes(plain + signed.public_bytes(Encoding.PEM))
        return file

    def revoke(self, *names: str, days: float = 2.0) -> None:
        """Write the list with the certificates of these clients. The next list is due after `days`."""
        now = datetime.now(UTC)
        made = x509.CertificateRevocationListBuilder(self._name, now - timedelta(days=3), now + timedelta(days=days))
        for name in names:
            revoked = x509.RevokedCertificateBuilder().serial_number(self._serials[name]).revocation_date(now)
            made = made.add_revoked_certificate(revoked.build())
        self.revocations.write_bytes(made.sign(self._key, SHA256()).public_bytes(Encoding.PEM))

    def _certificate(self, subject: x509.Name, key: EllipticCurvePrivateKey, days: float) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return x509.CertificateBuilder(
            self._name,
            subject,
            key.public_key(),
            x509.random_serial_number(),
            now - timedelta(days=1),
            now + timedelta(days=days),
        )
