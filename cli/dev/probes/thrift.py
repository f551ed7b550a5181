"""One call to each Thrift gateway of HBase. thriftpy2 is loaded when the first gateway is asked, not before."""

import io
from typing import Final

from hedwig.cli.dev.errors import NotReadyError
from hedwig.cli.dev.ports import LOOPBACK
from hedwig.cli.dev.probes.sockets import PROBE_TIMEOUT_S
from hedwig.clock import Deadline, SystemClock
from hedwig.extras import needed
from hedwig.outcomes import NotAppliedError, OutcomeUnknownError

__all__ = ["check_client", "read_tables_of_thrift1", "thrift2_has_table"]

_PURPOSE: Final = "HBase's Thrift gateways need"
_MS: Final = round(PROBE_TIMEOUT_S * 1000)
_THRIFT1: Final = "service Hbase { list<binary> getTableNames() }"
"""As much of the first gateway's Hbase.thrift as is asked for."""


def check_client() -> None:
    """Return if gateways can be asked here. Raises MissingExtraError."""
    with needed("thrift", _PURPOSE):
        import thriftpy2  # noqa: F401 (whether it can be)


def thrift2_has_table(port: int, namespace: str, table: str, timeout_s: float = PROBE_TIMEOUT_S) -> bool:
    """Ask the Thrift2 gateway whether a table exists, which makes it read hbase:meta."""
    with needed("thrift", _PURPOSE):
        from hedwig.metadata.hbase.thrift2.connection import GATEWAY, ThriftConnection

    name = GATEWAY.TTableName(ns=namespace.encode(), qualifier=table.encode())
    connection = ThriftConnection(LOOPBACK, port, framed=False)
    try:
        return bool(connection.call(Deadline.after(SystemClock(), timeout_s), "tableExists", name))
    except (GATEWAY.TIOError, NotAppliedError, OutcomeUnknownError) as exc:
        raise NotReadyError(str(exc)) from exc
    finally:
        connection.close()


def read_tables_of_thrift1(port: int) -> None:
    """Ask the Thrift1 gateway for the tables of the users."""
    with needed("thrift", _PURPOSE):
        import thriftpy2
        from thriftpy2.rpc import client_context
        from thriftpy2.thrift import TException

    # Once it is loaded, it is found by its name.
    gateway = thriftpy2.load_fp(io.StringIO(_THRIFT1), "hedwig_hbase_thrift")
    try:
        with client_context(gateway.Hbase, LOOPBACK, port, connect_timeout=_MS, socket_timeout=_MS) as client:
            client.getTableNames()
    except TException as exc:
        raise NotReadyError(str(exc)) from exc
