"""Certificates for hubs and clients, and the TLS settings of a client that trusts any hub."""

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

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


@dataclass
class Authority:
    """An authority, and the certificates that it signs."""

    folder: Path

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.certificate = self.folder / "ca.pem"
        self._key = self.folder / "ca-key.pem"
        self._openssl("req", "-x509", *self._new_key(self._key), "-subj", "/CN=authority", "-out", self.certificate)

    def client(self, name: str, alternative_names: str) -> ssl.SSLContext:
        """Return the settings of a client with a certificate of this authority."""
        key, request, signed = (self.folder / f"{name}{end}" for end in ("-key.pem", ".csr", ".pem"))
        self._openssl("req", *self._new_key(key), "-subj", f"/CN={name}", "-out", request)
        extensions = self.folder / "extensions"
        extensions.write_text(f"subjectAltName={alternative_names}\n")
        signing = ("-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial", "-days", "2")
        self._openssl("x509", "-req", "-in", request, *signing, "-extfile", extensions, "-out", signed)
        context = trusting()
        context.load_cert_chain(signed, key)
        return context

    @staticmethod
    def _new_key(key: Path) -> tuple[str | Path, ...]:
        return "-newkey", "rsa:2048", "-nodes", "-keyout", key

    @staticmethod
    def _openssl(*words: str | Path) -> None:
        subprocess.run(["openssl", *words], check=True, capture_output=True, timeout=60)
