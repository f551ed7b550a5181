"""One call to each Thrift gateway of HBase."""

import io
from typing import Any, Final

import thriftpy2
from thriftpy2.rpc import client_context
from thriftpy2.thrift import TException

from hedwig.cli.dev.errors import NotReadyError
from hedwig.cli.dev.ports import LOOPBACK
from hedwig.cli.dev.probes.sockets import PROBE_TIMEOUT_S
from hedwig.clock import Deadline, SystemClock
from hedwig.metadata.hbase.thrift2.connection import GATEWAY, Connection
from hedwig.outcomes import NotAppliedError, OutcomeUnknownError

__all__ = ["read_tables_of_thrift1", "thrift2_has_table"]

_MS: Final = round(PROBE_TIMEOUT_S * 1000)
# The part of the gateway's Hbase.thrift that is used here.
_THRIFT1: Final[Any] = thriftpy2.load_fp(
    io.StringIO("service Hbase { list<binary> getTableNames() }"), "hedwig_hbase_thrift"
)


def thrift2_has_table(port: int, namespace: str, table: str, timeout_s: float = PROBE_TIMEOUT_S) -> bool:
    """Ask the Thrift2 gateway whether a table exists, which makes it read hbase:meta."""
    name = GATEWAY.TTableName(ns=namespace.encode(), qualifier=table.encode())
    connection = Connection(LOOPBACK, port, framed=False)
    try:
        return bool(connection.call(Deadline.after(SystemClock(), timeout_s), "tableExists", name))
    except (GATEWAY.TIOError, NotAppliedError, OutcomeUnknownError) as exc:
        raise NotReadyError(str(exc)) from exc
    finally:
        connection.close()


def read_tables_of_thrift1(port: int) -> None:
    """Ask the Thrift1 gateway for the tables of the users."""
    try:
        with client_context(_THRIFT1.Hbase, LOOPBACK, port, connect_timeout=_MS, socket_timeout=_MS) as client:
            client.getTableNames()
    except TException as exc:
        raise NotReadyError(str(exc)) from exc
