"""Requests to the master: create and drop namespaces and tables, by procedures that take a while."""

import secrets
from collections.abc import Mapping
from typing import Final

from hedwig.clock import Clock, Deadline
from hedwig.errors import LayoutMissingError, MetadataError
from hedwig.metadata.hbase.driver import TableDescription, TableSpec
from hedwig.metadata.hbase.native.cluster.cluster import Cluster
from hedwig.metadata.hbase.native.hbase_pb2 import (
    BytesBytesPair,
    ClusterStatusRequest,
    ClusterStatusResponse,
    ColumnFamilySchema,
    CreateNamespaceRequest,
    CreateTableRequest,
    NamespaceDescriptor,
    ProcedureResponse,
    ProcedureResult,
    ProcedureResultRequest,
    ServersProcedure,
    ServersProcedureRequest,
    ServersProcedureResponse,
    TableDescriptors,
    TableDescriptorsRequest,
    TableRequest,
    TableSchema,
    TableState,
    TableStateRequest,
    TableStateResponse,
)
from hedwig.metadata.hbase.native.wire.failures import Meaning, ServerFailure
from hedwig.metadata.hbase.native.wire.regions import table_name
from hedwig.outcomes import ForbiddenError, NotAppliedError

__all__ = ["Administration"]

_POLL_S: Final = 0.05
_FLUSH: Final = "flush-table-proc"
"""Source: HBase, MasterFlushTableProcedureManager."""
_NO_NAMESPACE: Final = "NamespaceNotFoundException"


class Administration:
    """The tables of one cluster. Every method raises the errors of `Cluster.ask_master`, unless it says otherwise."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._refusals: dict[str, ForbiddenError] = {}
        """By namespace, the error with which HBase refused to create it."""

    async def create_namespace(self, namespace: str, deadline: Deadline) -> None:
        """Create a namespace; harmless if it exists.

        If the user may not create it, this raises nothing. `create_table` raises that refusal if there is no namespace.
        """
        request = CreateNamespaceRequest(
            namespace_descriptor=NamespaceDescriptor(name=namespace.encode()), nonce_group=_nonce(), nonce=_nonce()
        )
        try:
            await self._carry_out(
                "CreateNamespace", request.SerializeToString(), deadline, harmless="NamespaceExistException"
            )
        except ForbiddenError as refusal:
            # HBase checks the right before it checks whether the namespace exists.
            self._refusals[namespace] = refusal

    async def create_table(self, spec: TableSpec, deadline: Deadline) -> None:
        """Create a table and wait until it is open; harmless if it exists. Raises ForbiddenError too."""
        families = [
            ColumnFamilySchema(name=family, attributes=_pairs(spec.family_attributes)) for family in spec.families
        ]
        schema = TableSchema(
            table_name=table_name(spec.name), attributes=_pairs(spec.table_attributes), column_families=families
        )
        request = CreateTableRequest(
            table_schema=schema, split_keys=spec.split_points, nonce_group=_nonce(), nonce=_nonce()
        )
        namespace = spec.name.partition(":")[0]
        try:
            await self._carry_out("CreateTable", request.SerializeToString(), deadline, harmless="TableExistsException")
        except ForbiddenError:
            if not await self._cluster.table_exists(spec.name, deadline):
                raise
        except MetadataError as exc:
            cause = exc.__cause__
            if isinstance(cause, ServerFailure) and cause.java_class == _NO_NAMESPACE and namespace in self._refusals:
                raise self._refusals[namespace] from exc
            raise
        # Another client, or an unanswered call of this one, may have begun to create the table.
        while await self._state(spec.name, deadline) != TableState.ENABLED:
            await self._pause(f"table {spec.name} is not enabled yet", deadline)

    async def drop_table(self, table: str, deadline: Deadline) -> None:
        """Disable and delete a table; harmless if it does not exist."""
        for method, harmless in (("DisableTable", "TableNotEnabledException"), ("DeleteTable", "")):
            request = TableRequest(table_name=table_name(table), nonce_group=_nonce(), nonce=_nonce())
            try:
                await self._carry_out(method, request.SerializeToString(), deadline, harmless=harmless)
            except LayoutMissingError:
                return

    async def flush_table(self, table: str, deadline: Deadline) -> None:
        """Make HBase write the memory of all regions of a table into files, and wait until it has.

        Raises: MetadataError - HBase refuses; NotAppliedError - HBase does not finish before the deadline.
        """
        flush = ServersProcedureRequest(procedure=ServersProcedure(signature=_FLUSH, instance=table))
        request = flush.SerializeToString()
        try:
            await self._cluster.ask_master("ExecProcedure", request, deadline)
            while True:
                answer = await self._cluster.ask_master("IsProcedureDone", request, deadline)
                if ServersProcedureResponse.FromString(answer).done:
                    return
                await self._pause(f"the memory of table {table} is not written yet", deadline)
        except ServerFailure as failure:
            raise MetadataError(f"HBase does not flush {table}: {failure.java_class}: {failure}") from failure

    async def describe_table(self, table: str, deadline: Deadline) -> TableDescription:
        """Return a table as it is. Raises LayoutMissingError - there is none."""
        request = TableDescriptorsRequest(table_names=[table_name(table)])
        answer = await self._cluster.ask_master("GetTableDescriptors", request.SerializeToString(), deadline)
        schemas = TableDescriptors.FromString(answer).table_schema
        if not schemas:
            raise LayoutMissingError(f"HBase has no table {table}")
        regions = await self._cluster.regions(table, deadline)
        return TableDescription(
            name=table,
            families={
                family.name.decode(): {pair.first.decode(): pair.second.decode() for pair in family.attributes}
                for family in schemas[0].column_families
            },
            region_servers=[str(region.server) for region in regions],
        )

    async def version(self, deadline: Deadline) -> str:
        """Return the version of HBase that the master runs."""
        request = ClusterStatusRequest(options=[ClusterStatusRequest.HBASE_VERSION])
        answer = await self._cluster.ask_master("GetClusterStatus", request.SerializeToString(), deadline)
        return ClusterStatusResponse.FromString(answer).cluster_status.hbase_version.version

    async def _carry_out(self, method: str, request: bytes, deadline: Deadline, *, harmless: str) -> None:
        """Begin a procedure and wait for its end. The exception `harmless` means that there is nothing to do.

        Raises: LayoutMissingError - there is no such table; MetadataError - HBase refuses; NotAppliedError - the
            procedure does not end before the deadline.
        """
        try:
            procedure = ProcedureResponse.FromString(await self._cluster.ask_master(method, request, deadline)).proc_id
            await self._wait(procedure, method, deadline)
        except ServerFailure as failure:
            if failure.java_class == harmless:
                return
            if failure.meaning is Meaning.NO_TABLE:
                raise LayoutMissingError(f"HBase has no such table: {failure}") from failure
            raise MetadataError(f"HBase refuses {method}: {failure.java_class}: {failure}") from failure

    async def _wait(self, procedure: int, method: str, deadline: Deadline) -> None:
        request = ProcedureResultRequest(proc_id=procedure).SerializeToString()
        while True:
            answer = ProcedureResult.FromString(await self._cluster.ask_master("getProcedureResult", request, deadline))
            if answer.state != ProcedureResult.RUNNING:
                break
            await self._pause(f"{method} is not over yet", deadline)
        if answer.HasField("exception"):
            thrown = answer.exception.generic_exception
            raise ServerFailure(thrown.class_name, thrown.message, for_good=True)

    async def _state(self, table: str, deadline: Deadline) -> int:
        request = TableStateRequest(table_name=table_name(table)).SerializeToString()
        try:
            answer = await self._cluster.ask_master("GetTableState", request, deadline)
        except ServerFailure as failure:
            raise NotAppliedError(f"the state of table {table} is not known yet: {failure}") from failure
        return TableStateResponse.FromString(answer).table_state.state

    async def _pause(self, what: str, deadline: Deadline) -> None:
        if deadline.remaining_s() <= _POLL_S:
            raise NotAppliedError(what)
        await self._clock.sleep(_POLL_S)


def _pairs(attributes: Mapping[str, str]) -> list[BytesBytesPair]:
    return [BytesBytesPair(first=key.encode(), second=value.encode()) for key, value in attributes.items()]


def _nonce() -> int:
    """Return a nonzero number by which HBase recognizes a repeated call."""
    return secrets.randbits(63) | 1
