"""All services that the launcher knows, and which servers a request for some of them means."""

from collections.abc import Iterator, Mapping, Sequence

from hedwig.cli.dev.errors import DevError
from hedwig.cli.dev.servers.bookkeeper import BOOKKEEPER
from hedwig.cli.dev.servers.hbase import HBASE
from hedwig.cli.dev.servers.hedwig43 import BOOKKEEPER43, JAVA_HEDWIG
from hedwig.cli.dev.servers.kerberos import KERBEROS_SERVICE
from hedwig.cli.dev.servers.server_kind import ServerKind, Service
from hedwig.cli.dev.servers.thrift import THRIFT1, THRIFT2
from hedwig.cli.dev.servers.zookeeper import ZOOKEEPER
from hedwig.cli.dev.state import DirectoryState

__all__ = ["DEFAULT_SERVICES", "KINDS", "SERVICES", "kinds_needing", "planned_servers"]

# In the order of their start: a service comes after those that it requires.
_ALL = (ZOOKEEPER, KERBEROS_SERVICE, HBASE, THRIFT2, THRIFT1, BOOKKEEPER, BOOKKEEPER43, JAVA_HEDWIG)
SERVICES: Mapping[str, Service] = {service.name: service for service in _ALL}
KINDS: Mapping[str, ServerKind] = {kind.name: kind for service in _ALL for kind in service.kinds}
DEFAULT_SERVICES = ("zookeeper", "hbase", "thrift2")


def planned_servers(
    names: Sequence[str], counts: Mapping[str, int], state: DirectoryState
) -> list[tuple[str, ServerKind]]:
    """Return name and kind of every server of the services `names`, and of the services that they require.

    A server that is already known stays part of its service, even if `counts` asks for fewer.

    Raises: DevError - a name that is no service.
    """
    wanted: set[str] = set()
    for name in names:
        if name not in SERVICES:
            raise DevError(f"there is no service {name!r}: choose from {', '.join(SERVICES)}")
        wanted |= {name, *_required_by(name)}
    plan: list[tuple[str, ServerKind]] = []
    for service in SERVICES.values():
        if service.name in wanted:
            for kind in service.kinds:
                plan += [(name, kind) for name in _server_names(kind, counts, state)]
    return plan


def kinds_needing(kind: str) -> set[str]:
    """Return the kinds of all services that need the service of `kind`, including that service itself."""
    own = next(service.name for service in SERVICES.values() if any(one.name == kind for one in service.kinds))
    needing = [service for service in SERVICES.values() if service.name == own or own in _required_by(service.name)]
    return {one.name for service in needing for one in service.kinds}


def _required_by(name: str) -> Iterator[str]:
    for required in SERVICES[name].requires:
        yield required
        yield from _required_by(required)


def _server_names(kind: ServerKind, counts: Mapping[str, int], state: DirectoryState) -> list[str]:
    if kind.count_option is None:
        return [kind.name]
    known = max((record.number for record in state.of_kind(kind.name)), default=0)
    return [f"{kind.name}-{number}" for number in range(1, max(counts[kind.count_option], known) + 1)]
