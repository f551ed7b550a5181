"""Whom a certificate is for: which of its names count, in which order, and what is no rule."""

from typing import Any

import pytest

from hedwig.access import CertificateNames, Principal
from hedwig.errors import InvalidArgumentError

CERTIFICATE: dict[str, Any] = {
    "subject": ((("organizationName", "acme"),), (("commonName", "orders-1"),)),
    "subjectAltName": (
        ("DNS", "orders-1.acme.example"),
        ("email", "ops@acme.example"),
        ("URI", "spiffe://acme/shop/orders"),
    ),
}


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (["CN:(.+) => $1"], Principal("orders-1")),
        (["URI:spiffe://acme/(\\w+)/(.+) => $2 in $1"], Principal("orders", frozenset({"shop"}))),
        (
            ["URI:spiffe://other/(.+) => $1", "DNS:([^.]+)[.]acme[.]example => $1 in hosts+acme"],
            Principal("orders-1", frozenset({"hosts", "acme"})),
        ),
        (["email:(.+) => $1", "CN:(.+) => $1"], Principal("ops@acme.example")),
        (["(URI|DNS):.* => machine"], Principal("machine")),
        (["CN:(orders) => $1"], None),
        ([], None),
    ],
)
def test_the_first_rule_that_matches_decides(rules: list[str], expected: Principal | None) -> None:
    assert CertificateNames(rules).principal(CERTIFICATE) == expected


def test_a_certificate_without_names_is_for_nobody() -> None:
    assert CertificateNames(["CN:(.*) => $1"]).principal({}) is None


def test_a_name_that_no_user_can_have_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="1 to 128 letters"):
        CertificateNames(["URI:(.+) => $1"]).principal(CERTIFICATE)


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("CN:(.+)", "a rule for certificates is"),
        ("CN:(.+) => ", "a rule for certificates is"),
        ("CN:(.+ => $1", "no regular expression"),
        ("CN:(.+) => $2", "brackets on the right that are not on the left"),
    ],
)
def test_what_is_no_rule_is_refused(rule: str, why: str) -> None:
    with pytest.raises(InvalidArgumentError, match=why):
        CertificateNames([rule])
