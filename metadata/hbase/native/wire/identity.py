"""What this process shows to HBase. A cluster without authentication believes the user name that a client gives.

HBase decides what that user may do, if it checks rights at all (`hbase.security.authorization`).
"""

import getpass
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self

from hedwig.errors import ConfigurationError
from hedwig.metadata.contract.url import MetadataUrl
from hedwig.store_access import NO_HBASE_ACCESS, HBaseAccess

__all__ = ["USER", "Identity"]

USER: Final = "user"
"""The parameter of a metadata URL that names the user."""

_VARIABLE: Final = "HADOOP_USER_NAME"
_RECORDS: Final = "RW"
_TABLES: Final = "RWC"


@dataclass(frozen=True, slots=True)
class Identity:
    """The name of the user, and the namespace in which the user needs rights; `access` is what its connections show."""

    user: str
    namespace: str
    access: HBaseAccess = NO_HBASE_ACCESS

    @classmethod
    def of(cls, url: MetadataUrl, access: HBaseAccess = NO_HBASE_ACCESS) -> Self:
        """Return the user of the login by Kerberos, else that of the URL, else HADOOP_USER_NAME, else the system's.

        HBase's own client reads the same variable. Without a keytab, nobody knows here whose tickets count.

        Raises: ConfigurationError - the name in the URL is empty or not printable.
        """
        name = url.parameters.get(USER)
        if name is not None and not (name and name.isprintable()):
            raise ConfigurationError(f"{url.text!r}: the parameter {USER} is the name of a user of HBase")
        if access.kerberos is not None and access.kerberos.client:
            name = access.kerberos.client.partition("@")[0].partition("/")[0]  # What HBase makes of it by default.
        if not name:
            name = os.environ.get(_VARIABLE)
        if not name:
            with suppress(KeyError, OSError):
                name = getpass.getuser()
        return cls(name or "hedwig", url.path.strip("/"), access)

    @property
    def advice_for_records(self) -> str:
        """Return the command that lets the user read and change records."""
        return self._grant(_RECORDS)

    @property
    def advice_for_tables(self) -> str:
        """Return the command that lets the user create and drop the tables."""
        return f"{self._grant(_TABLES)} (after create_namespace {self.namespace!r}, if there is none)"

    def _grant(self, rights: str) -> str:
        return f"in the shell of HBase: grant {self.user!r}, {rights!r}, '@{self.namespace}'"
