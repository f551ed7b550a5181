"""The options of a BookKeeper ledger store."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from hedwig.errors import ConfigurationError
from hedwig.hub.ledgers.bookkeeper.cluster import BookieClusterOptions
from hedwig.hub.ledgers.bookkeeper.wire.digests import DigestKind
from hedwig.hub.ledgers.bookkeeper.wire.quorums import Quorums
from hedwig.store_access import TlsFiles

__all__ = ["BookkeeperOptions"]

_FORMATS: Final = (2, 3)
_APPLICATION: Final = b"hedwig"
_ORIGINAL_PASSWORD: Final = b"sillysecret"


@dataclass(frozen=True, slots=True, kw_only=True)
class BookkeeperOptions:
    """How a store makes new ledgers, and its deadlines and bounds.

    `custom` goes into the metadata of each new ledger, to tell it from ledgers of other applications. Metadata of
    format 2 is for readers of BookKeeper 4.3. They know no custom metadata, and no digests but CRC32 and HMAC. With
    `tls`, connections to bookies speak TLS.
    """

    quorums: Quorums = field(default_factory=lambda: Quorums(ensemble=3, write=3, ack=2))
    digest: DigestKind = DigestKind.CRC32C
    password: bytes = b""
    metadata_format: int = 3
    custom: Mapping[str, bytes] = field(default_factory=dict)
    cluster: BookieClusterOptions = field(default_factory=BookieClusterOptions)
    tls: TlsFiles | None = None

    @classmethod
    def for_hubs(
        cls, deployment: bytes, quorums: Quorums | None = None, cluster: BookieClusterOptions | None = None
    ) -> Self:
        """Return the options for the hubs of one deployment. Their ledgers carry its name."""
        return cls(
            quorums=quorums or Quorums(ensemble=3, write=3, ack=2),
            custom={"application": _APPLICATION, "deployment": deployment},
            cluster=cluster or BookieClusterOptions(),
        )

    @classmethod
    def for_original_hub(cls, quorums: Quorums, cluster: BookieClusterOptions | None = None) -> Self:
        """Return the options under which the original hub can read the ledgers. It writes its own with the same.

        Source: Hedwig 4.3.2 BookkeeperPersistenceManager.
        """
        return cls(
            quorums=quorums,
            digest=DigestKind.CRC32,
            password=_ORIGINAL_PASSWORD,
            metadata_format=2,
            cluster=cluster or BookieClusterOptions(),
        )

    def __post_init__(self) -> None:
        if self.metadata_format not in _FORMATS:
            raise ConfigurationError(f"bookkeeper: metadata_format is {self.metadata_format}; it must be 2 or 3")
        if self.metadata_format == 2 and self.digest not in (DigestKind.CRC32, DigestKind.HMAC):
            raise ConfigurationError(
                f"bookkeeper: metadata of format 2 cannot name {self.digest.name}: choose CRC32 or HMAC, or format 3"
            )
        if self.metadata_format == 2 and self.custom:
            raise ConfigurationError("bookkeeper: metadata of format 2 has no custom metadata: leave it out")
