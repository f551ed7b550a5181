"""Which deployment an operation is about: its store, its hubs and its ledgers, as far as the user named them.

Every command loads this module, even for completion in a shell. So it loads no store.
"""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from hedwig.errors import ConfigurationError, OperationError
from hedwig.operations.deployment.admin_access import AdminAccess
from hedwig.private_files import close_to_others, make_directory, user_data_directory

if TYPE_CHECKING:
    from hedwig.metadata import StoreOptions
    from hedwig.operations.deployment.admin_endpoint import AdminClient

__all__ = ["Deployment", "embedded_url", "without_making"]

_ZOOKEEPER_PORT: Final = 2181
_BOOKIES: Final = "/ledgers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A store, the hubs that use it, and their ledgers, as the user named them; None for what the user did not name.

    Args:
        command: the operation, as its errors name it.
        timeout_s: how long one operation on a store, or one request to a hub, may take.
        metadata: URL of the store; None for the SQLite file in the user's data directory.
        cluster: where the hubs are registered, their option cluster.zookeeper; None if that is where the metadata are.
        data: data directory of a standalone hub, which has its ledgers.
        bookkeeper: URL of the bookies that have the ledgers of a cluster. Only one of `data` and `bookkeeper` is given.
        admin: host:port or https://host:port, in place of the admin endpoint that a hub announces.
        access: what to show at admin endpoints.
        stores_file: path of the file with what to show to stores (hedwig.store_access); empty: nothing.
    """

    command: str
    timeout_s: float
    metadata: str | None = None
    cluster: str | None = None
    data: str | None = None
    bookkeeper: str | None = None
    admin: str | None = None
    access: AdminAccess = field(default_factory=AdminAccess)
    stores_file: str = ""

    def admin_client(self, hub: str, address: str, within_s: float | None = None) -> "AdminClient":
        """Return the admin endpoint of a hub at an address; a request may take `timeout_s`, or `within_s` if given."""
        from hedwig.operations.deployment.admin_endpoint import AdminClient

        access = self.access
        if access.data is None and self.metadata is not None and self.metadata.startswith("sqlite:"):
            from hedwig.metadata.contract.url import MetadataUrl

            # A hub keeps its store in its data directory, and its token too.
            access = replace(access, data=str(MetadataUrl.parse(self.metadata).file.parent))
        return AdminClient(self.command, hub, address, self.timeout_s if within_s is None else within_s, access)

    @property
    def is_embedded(self) -> bool:
        """Whether the store is the one in the user's data directory, since the user named no other."""
        return self.metadata is None

    @property
    def url(self) -> str:
        """Return the URL of the store. Makes the directory of the embedded store.

        Raises: OperationError - that directory cannot be made.
        """
        return self.metadata or _make_embedded()

    @property
    def url_to_show(self) -> str:
        """Return the URL of the store without making anything."""
        return self.metadata or embedded_url()

    @property
    def cluster_url(self) -> str:
        """Return where the hubs are registered. Raises ConfigurationError if the user did not say so."""
        if self.cluster is not None:
            return self.cluster
        if self.metadata is None or not self.metadata.startswith("zookeeper:"):
            raise ConfigurationError(
                "no cluster was named; give --cluster zookeeper://host:2181/hedwig/REGION, as in the option "
                "cluster.zookeeper of its hubs"
            )
        return self.metadata

    @property
    def cluster_url_if_known(self) -> str | None:
        """Return where the hubs are registered; None if the user did not say so."""
        try:
            return self.cluster_url
        except ConfigurationError:
            return None

    @property
    def names_ledgers(self) -> bool:
        """Whether the user said where the ledgers are."""
        return bool(self.data or self.bookkeeper)

    @property
    def bookies_url(self) -> str | None:
        """Return the URL of the bookies, as given or as hubs of the cluster use them; None: ledgers are in a directory.

        By default, the hubs of a cluster use the bookies that are registered in the hubs' ZooKeeper.
        """
        return self.bookkeeper or (None if self.data else self.bookies_of_cluster)

    @property
    def bookies_of_cluster(self) -> str | None:
        """Return the URL of the bookies that hubs of the cluster use by default; None without a cluster."""
        from hedwig.metadata.contract.url import MetadataUrl

        try:
            endpoints = MetadataUrl.parse(self.cluster_url).endpoints(_ZOOKEEPER_PORT)
        except ConfigurationError:
            return None
        return f"zookeeper://{','.join(f'{host}:{port}' for host, port in endpoints)}{_BOOKIES}"

    def store_options(self, **changes: Any) -> "StoreOptions":
        """Return options to use the store."""
        from hedwig.metadata import StoreOptions

        return StoreOptions(operation_timeout_s=self.timeout_s, stores_file=self.stores_file, **changes)

    def options_to_look(self, **changes: Any) -> "StoreOptions":
        """Return options to look at a store. A named store that does not exist is not made.

        A read-only store can be opened, too.
        """
        return self.store_options(**{"makes": self.is_embedded, "reads_only": True, **changes})


def without_making(url: str) -> str:
    """Return the URL of the same store, with the option that it is not made if it does not exist."""
    if not url.startswith("sqlite:") or "create=" in url:
        return url
    return f"{url}{'&' if '?' in url else '?'}create=false"


def embedded_url() -> str:
    """Return the URL of the store in the user's data directory without making anything."""
    return f"sqlite://{quote(str(user_data_directory() / 'metadata.db'))}"


def _make_embedded() -> str:
    directory = user_data_directory()
    try:
        make_directory(directory)
    except OSError as exc:
        raise OperationError(
            f"cannot make the directory {directory} for the embedded metadata store: {exc.strerror}; "
            "name a store with --metadata URL"
        ) from exc
    with suppress(OSError):  # Another user may own the directory. An earlier release may have let others read it.
        close_to_others(directory)
    return embedded_url()
