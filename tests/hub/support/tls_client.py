"""A certificate for a hub, and the TLS settings of a client that trusts any."""

import ssl
import subprocess
from pathlib import Path

__all__ = ["make_certificate", "trusting"]


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
