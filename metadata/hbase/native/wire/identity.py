"""Whom the servers take this process for: a cluster without authentication believes the name that a client gives.

What that user may do is for HBase to say, where it checks rights at all (`hbase.security.authorization`).
"""

import getpass
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self

from hedwig.errors import ConfigurationError
from hedwig.metadata.contract.url import MetadataUrl

__all__ = ["USER", "Identity"]

USER: Final = "user"
"""The parameter of a metadata URL that names the user."""

_VARIABLE: Final = "HADOOP_USER_NAME"
_RECORDS: Final = "RW"
_TABLES: Final = "RWC"


@dataclass(frozen=True, slots=True)
class Identity:
    """The name of the user, and the namespace in which rights are needed."""

    user: str
    namespace: str

    @classmethod
    def of(cls, url: MetadataUrl) -> Self:
        """Return what a URL says, or else the environment, as HBase's own client reads it, or else the system.

        Raises: ConfigurationError - the URL names nobody.
        """
        name = url.parameters.get(USER)
        if name is not None and not (name and name.isprintable()):
            raise ConfigurationError(f"{url.text!r}: the parameter {USER} is the name of a user of HBase")
        if not name:
            name = os.environ.get(_VARIABLE)
        if not name:
            with suppress(KeyError, OSError):
                name = getpass.getuser()
        return cls(name or "hedwig", url.path.strip("/"))

    @property
    def advice_for_records(self) -> str:
        """Say what lets the user read and change records."""
        return self._grant(_RECORDS)

    @property
    def advice_for_tables(self) -> str:
        """Say what lets the user make the tables, and drop them."""
        return f"{self._grant(_TABLES)} (after create_namespace {self.namespace!r}, if there is none)"

    def _grant(self, rights: str) -> str:
        return f"in the shell of HBase: grant {self.user!r}, {rights!r}, '@{self.namespace}'"
