"""Client certificates: which user a certificate is for, and in which groups.

    URI:spiffe://acme/shop/(.+) => $1 in shop
    CN:(.+) => $1

The names in a certificate are tried in the order URI, DNS, email, CN, by one rule after the other. The first rule of
which the whole left side matches decides. `$1` is what its first brackets have matched.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from hedwig.access.principals import Principal
from hedwig.errors import InvalidArgumentError

__all__ = ["CertificateNames"]

_KINDS: Final = ("URI", "DNS", "email")
_GROUP: Final = re.compile(r"\$(\d)")


@dataclass(frozen=True, slots=True)
class _NameRule:
    pattern: re.Pattern[str]
    user: str
    groups: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises: InvalidArgumentError."""
        left, arrow, right = text.partition(" => ")
        user, _, groups = right.partition(" in ")
        if not arrow or not user.strip():
            raise InvalidArgumentError(f"a rule for certificates is: KIND:REGEX => USER [in GROUP+…]; not {text!r}")
        try:
            pattern = re.compile(left.strip())
        except re.error as exc:
            raise InvalidArgumentError(f"{left.strip()!r} is no regular expression: {exc}") from exc
        if any(int(number) > pattern.groups for number in _GROUP.findall(right)):
            raise InvalidArgumentError(f"{text!r} names brackets on the right that are not on the left")
        return cls(pattern, user.strip(), tuple(each.strip() for each in groups.split("+") if each.strip()))

    def principal(self, name: str) -> Principal | None:
        """Return whom a name of a certificate is for. Raises: InvalidArgumentError - that cannot be a name."""
        match = self.pattern.fullmatch(name)
        if match is None:
            return None

        def filled(text: str) -> str:
            return _GROUP.sub(lambda found: match[int(found[1])] or "", text)

        return Principal(filled(self.user), frozenset(map(filled, self.groups)))


class CertificateNames:
    """The rules of a hub on whom certificates are for."""

    def __init__(self, rules: Sequence[str]) -> None:
        """Raises: InvalidArgumentError - a rule is none."""
        self._rules = [_NameRule.parse(text) for text in rules]

    def principal(self, certificate: Mapping[str, Any]) -> Principal | None:
        """Return whom a certificate is for; None if no rule says it. Source: ssl.SSLSocket.getpeercert.

        Raises: InvalidArgumentError - the rule makes a name of it that is none.
        """
        names = list(_names_of(certificate))
        for rule in self._rules:
            for name in names:
                if (principal := rule.principal(name)) is not None:
                    return principal
        return None


def _names_of(certificate: Mapping[str, Any]) -> Iterator[str]:
    alternatives = certificate.get("subjectAltName", ())
    for kind in _KINDS:
        yield from (f"{kind}:{value}" for its, value in alternatives if its == kind)
    for parts in certificate.get("subject", ()):
        yield from (f"CN:{value}" for key, value in parts if key == "commonName")
