"""A hub that also listens for TLS, with a certificate of its own."""

import re
import subprocess
from pathlib import Path
from typing import Final

from tests.hub.support.running import RunningHub

__all__ = ["TlsHub", "make_certificate"]

_LISTENING: Final = re.compile(r"TLS \S+:(\d+)")


class TlsHub(RunningHub):
    """A hub with a TLS listener. `certificate` is the one that it shows at 127.0.0.1."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.certificate, key = make_certificate(directory, "hub", "IP:127.0.0.1")
        super().__init__(directory, "tls_port=0", f"tls_certificate={self.certificate}", f"tls_key={key}")

    @property
    def tls_address(self) -> str:
        """Return host:port:TLSport."""
        match = _LISTENING.search(self.log)
        assert match is not None, self.log
        return f"{self.address}:{match[1]}"


def make_certificate(directory: Path, name: str, alternative_name: str) -> tuple[Path, Path]:
    """Make a self-signed certificate; return its file and the file of its key, both PEM."""
    certificate, key = directory / f"{name}-certificate.pem", directory / f"{name}-key.pem"
    subject = ("-subj", f"/CN={name}", "-addext", f"subjectAltName={alternative_name}", "-days", "2")
    files = ("-keyout", str(key), "-out", str(certificate))
    made = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject, *files)
    subprocess.run(made, check=True, capture_output=True, timeout=60)
    return certificate, key
