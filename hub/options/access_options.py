"""The options of access control: whether a hub asks the rules, and who comes without a name."""

import math
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from hedwig.access import CertificateNames, Principal
from hedwig.errors import ConfigurationError, InvalidArgumentError
from hedwig.hub.options.field import check_mechanisms, check_ranges, option

__all__ = ["AccessMode", "AccessOptions"]


class AccessMode:
    """What a hub does with the rules."""

    OPEN: Final = "open"
    """Nothing: everybody may do everything."""
    AUDIT: Final = "audit"
    """It lets everything pass, and says what the rules would refuse."""
    RULES: Final = "rules"
    """It refuses what no rule allows."""


_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_MODES: Final = (AccessMode.OPEN, AccessMode.AUDIT, AccessMode.RULES)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessOptions:
    """Who may do what.

    Raises: ConfigurationError - a value is out of its range.
    """

    mode: str = option(
        "",
        "`open`: everybody may do everything; `audit`: likewise, and the log says what the rules would refuse; "
        "`rules`: the hub refuses what no rule allows; empty: `open`, which only a hub on a loopback address may leave "
        "unsaid",
    )
    anonymous: str = option("local", "the user that clients are who do not say who they are; empty: they may nothing")
    client_ca: str = option(
        "", "PEM file of the authorities whose client certificates count on the TLS port; empty: it asks for none"
    )
    client_crl: str = option(
        "",
        "PEM file of the revocation lists of these authorities, of each of them; a certificate of one whose list is "
        "missing or overdue does not count; empty: nothing is revoked",
    )
    certificate_names: tuple[str, ...] = option(
        ("CN:(.+) => $1",),
        "whom client certificates are for, as rules KIND:REGEX => USER [in GROUP+…]; the first counts",
    )
    mechanisms: tuple[str, ...] = option(
        (),
        "how clients of `port` and `tls_port` may log in: SCRAM-SHA-256, SCRAM-SHA-256-PLUS, OAUTHBEARER (over TLS); "
        "empty: not at all",
    )
    token_keys: str = option("", "file or https URL of the keys that verify tokens, as a JWK set")
    token_audience: str = option("", "whom tokens must be meant for (aud)")
    token_issuer: str = option("", "who must have issued them (iss); empty: whoever has the keys")
    token_user: str = option("sub", "the claim that names the user")
    token_groups: str = option("groups", "the claim that names its groups, if it has any")
    login_s: float = option(10.0, "how long a client that must log in may take; then the hub closes its connection")
    newcomers_max: int = option(1000, "clients that must log in and have not yet; beyond, the hub closes the oldest")
    audit_file: str = option("", "file that gets a line of JSON for who was refused what; empty: none")
    audit_bytes_max: int = option(64 << 20, "size of that file and of those before it, the oldest of which is deleted")
    refresh_s: float = option(2.0, "how often the hub looks whether the rules have changed")
    stale_max_s: float = option(
        300.0, "if the rules could not be read for N s, the hub refuses everything; 0: it goes on with those it knows"
    )

    @property
    def are_rules_asked(self) -> bool:
        """Whether the hub reads the rules."""
        return self.mode in (AccessMode.AUDIT, AccessMode.RULES)

    def __post_init__(self) -> None:
        if self.mode not in ("", *_MODES):
            raise ConfigurationError(f"access: mode is {self.mode!r}; it must be open, audit or rules")
        if self.anonymous:
            try:
                Principal(self.anonymous)
            except InvalidArgumentError as exc:
                raise ConfigurationError(f"access: anonymous is {self.anonymous!r}: {exc}") from exc
        try:
            CertificateNames(self.certificate_names)
        except InvalidArgumentError as exc:
            raise ConfigurationError(f"access: certificate_names: {exc}") from exc
        if self.client_crl and not self.client_ca:
            raise ConfigurationError("access: client_crl is set, so client_ca must name the authorities")
        check_mechanisms("access: ", self.mechanisms)
        url = urlsplit(self.token_keys)
        if url.scheme and url.scheme != "https" and not (url.scheme == "http" and url.hostname in _LOOPBACK):
            raise ConfigurationError(f"access: token_keys is {self.token_keys}; it must be a file or an https URL")
        bounds = (("newcomers_max", 1, 10_000_000), ("audit_bytes_max", 1 << 16, 1 << 50))
        check_ranges(self, bounds, "access")
        if not 0 < self.login_s < math.inf:
            raise ConfigurationError(f"access: login_s is {self.login_s}; it must be more than 0")
        if not 0 < self.refresh_s < math.inf:
            raise ConfigurationError(f"access: refresh_s is {self.refresh_s}; it must be more than 0")
        if not 0 <= self.stale_max_s < math.inf:
            raise ConfigurationError(f"access: stale_max_s is {self.stale_max_s}; it must be a number from 0 on")
