"""The session in which a store reads and writes."""

from typing import Final

from hedwig.errors import MetadataUnavailableError
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.outcomes import NotAppliedError
from hedwig.store_access import StoreAccess
from hedwig.zookeeper import Bridge, BridgeOptions

__all__ = ["connect"]

_SESSION_MIN_S: Final = 4.0
_SESSION_MAX_S: Final = 10.0


async def connect(hosts: str, options: StoreOptions) -> Bridge:
    """Return a bridge to the ZooKeeper at `hosts`.

    Raises: MetadataUnavailableError - none of them answers; ConfigurationError - the stores file cannot be used.
    """
    # The session holds nothing. Its timeout only decides how soon the client leaves a silent server: after two thirds
    # of it. A third of the operation timeout leaves time for another attempt.
    session_s = min(_SESSION_MAX_S, max(_SESSION_MIN_S, options.operation_timeout_s / 3))
    bridge = Bridge(
        hosts,
        BridgeOptions(
            session_timeout_s=session_s,
            connect_timeout_s=options.operation_timeout_s,
            in_flight_max=options.in_flight_max,
            access=StoreAccess.read(options.stores_file).zookeeper,
            clock=options.clock,
        ),
    )
    try:
        await bridge.connect()
    except NotAppliedError as exc:
        await bridge.close()
        raise MetadataUnavailableError(str(exc)) from exc
    except BaseException:
        await bridge.close()
        raise
    return bridge
