"""What secure servers and their clients need: an authority of their own, a certificate each, and a stores file.

They are for one machine and for a year. Their keys are readable for their owner only.
"""

import secrets
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hedwig.cli.dev.ports import LOOPBACK
from hedwig.extras import needed
from hedwig.private_files import make_directory

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

__all__ = [
    "AUTHORITY",
    "CLIENT",
    "CLIENT_KEYTAB",
    "CLIENT_PRINCIPAL",
    "KERBEROS",
    "REALM",
    "ROLE",
    "SERVER",
    "SERVER_CERTIFICATE",
    "SERVER_KEY",
    "SERVER_KEYTAB",
    "SERVER_PRINCIPAL",
    "STORES_FILE",
    "make_certificates",
]

AUTHORITY: Final = "ca.pem"
SERVER: Final = "server.pem"
"""The key and the certificate of the servers in one file; some servers want two."""
SERVER_KEY: Final = "server-key.pem"
SERVER_CERTIFICATE: Final = "server-certificate.pem"
CLIENT: Final = "client.pem"
STORES_FILE: Final = "stores.toml"
KERBEROS: Final = "krb5.conf"
REALM: Final = "HEDWIG.DEV"
SERVER_PRINCIPAL: Final = f"hbase/localhost@{REALM}"
SERVER_KEYTAB: Final = "server.keytab"
CLIENT_KEYTAB: Final = "client.keytab"
CLIENT_PRINCIPAL: Final = f"hedwig@{REALM}"
ROLE: Final = "hedwig"
"""The role of clients at bookies, which read it in a certificate as the OU 0:ROLE."""

_DAYS: Final = 365
_PASSWORD_BYTES: Final = 24
_STORES: Final = """# What hubs, hedwig-admin and hedwig-pipeline show to these servers.
[zookeeper]
logins = ["hedwig:{password}"]
tls_ca = "{ca}"
tls_certificate = "{client}"

[hbase]
tls_ca = "{ca}"
tls_certificate = "{client}"
{kerberos}
[bookkeeper]
tls_ca = "{ca}"
tls_certificate = "{client}"
"""
_KERBEROS_LINES: Final = f"""kerberos_servers = "{SERVER_PRINCIPAL}"
kerberos_client = "{CLIENT_PRINCIPAL}"
kerberos_keytab = "{CLIENT_KEYTAB}"
kerberos_config = "{KERBEROS}"
"""


def make_certificates(directory: Path, *, kerberos: bool) -> None:
    """Make all files in `directory`, the stores file last. If there is one, nothing is made.

    Args: kerberos - programs log in to HBase by Kerberos; its server makes these files.
    Raises: MissingExtraError.
    """
    if (directory / STORES_FILE).exists():
        return
    with needed("hub", "secure servers need"):
        from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    make_directory(directory)
    authority = generate_private_key(SECP256R1())
    (directory / AUTHORITY).write_bytes(_certificate("authority", authority, authority))
    for name, whole in (("server", SERVER), ("client", CLIENT)):
        own = generate_private_key(SECP256R1())
        key = own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        certificate = _certificate(name, own, authority)
        (directory / whole).write_bytes(key + certificate)
        if name == "server":
            (directory / SERVER_KEY).write_bytes(key)
            (directory / SERVER_CERTIFICATE).write_bytes(certificate)
    password = secrets.token_urlsafe(_PASSWORD_BYTES)
    lines = _KERBEROS_LINES if kerberos else ""
    partial = directory / f"{STORES_FILE}.partial"
    partial.write_text(_STORES.format(password=password, ca=AUTHORITY, client=CLIENT, kerberos=lines))
    partial.replace(directory / STORES_FILE)


def _certificate(name: str, key: "EllipticCurvePrivateKey", authority: "EllipticCurvePrivateKey") -> bytes:
    """Return a certificate that the authority signs, for this machine; its own one if both keys are the same."""
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509.oid import NameOID

    def called(text: str) -> x509.Name:
        parts = {NameOID.ORGANIZATIONAL_UNIT_NAME: f"0:{ROLE}", NameOID.COMMON_NAME: f"hedwig dev {text}"}
        return x509.Name([x509.NameAttribute(kind, part) for kind, part in parts.items()])

    now = datetime.now(UTC)
    made = x509.CertificateBuilder(
        called("authority"),
        called(name),
        key.public_key(),
        x509.random_serial_number(),
        now - timedelta(days=1),
        now + timedelta(days=_DAYS),
    )
    if key is authority:
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    else:
        here = [x509.DNSName("localhost"), x509.IPAddress(ip_address(LOOPBACK))]
        made = made.add_extension(x509.SubjectAlternativeName(here), critical=False)
    return made.sign(authority, SHA256()).public_bytes(Encoding.PEM)
