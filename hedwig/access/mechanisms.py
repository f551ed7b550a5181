"""The mechanisms by which clients may say who they are (SASL, RFC 4422)."""

from typing import Final

__all__ = ["MECHANISMS", "Mechanism"]


class Mechanism:
    """A mechanism of SASL that hubs and clients know."""

    SCRAM: Final = "SCRAM-SHA-256"
    """A password, which no hub ever sees (RFC 5802, RFC 7677)."""
    SCRAM_PLUS: Final = "SCRAM-SHA-256-PLUS"
    """The same, and a proof that both sides are ends of the same TLS connection."""

    TOKEN: Final = "OAUTHBEARER"
    """A signed token of somebody whom the hub trusts (RFC 7628), over TLS only."""


MECHANISMS: Final = (Mechanism.SCRAM_PLUS, Mechanism.SCRAM, Mechanism.TOKEN)
"""All of them."""
