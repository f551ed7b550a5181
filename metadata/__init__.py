"""Metadata: topic ownership, ledger ranges and subscriptions, changed only by compare-and-set."""

from hedwig.extras import needed

with needed("metadata", "hedwig.metadata needs"):
    import msgpack  # noqa: F401 (first of all, so that one line says what is missing)

from hedwig import errors
from hedwig.metadata.calls.change import Instead, TopicRecords, change
from hedwig.metadata.contract.backend import Backend, BackendFactory, Estimate, IndexState, StoreOptions, regions_for
from hedwig.metadata.contract.key_ranges import KeyRange
from hedwig.metadata.contract.layout import Layout
from hedwig.metadata.contract.named_records import NamedRecords
from hedwig.metadata.contract.operations import Delete, Operation, Outcome, Read, RecordKey, Write
from hedwig.metadata.contract.scan import ScannedRecord
from hedwig.metadata.contract.table import VersionedTable
from hedwig.metadata.contract.url import MetadataUrl
from hedwig.metadata.contract.write_gate import WriteGate
from hedwig.metadata.contract.write_lease import WriteLease
from hedwig.metadata.managers import Managers, SubscriptionDataManager, TopicOwnershipManager, TopicPersistenceManager
from hedwig.metadata.standalone import StandaloneHub
from hedwig.metadata.store import MetadataStore, format_metadata, open_metadata, read_layout
from hedwig.versions import ANY, NEW, Version, Versioned

if __name__ != "hedwig.metadata":
    # Imported under two names, each class would exist twice, and `isinstance` would fail between them.
    raise ImportError("metadata is imported as hedwig.metadata, by that name alone")

__all__ = [
    "ANY",
    "NEW",
    "Backend",
    "BackendFactory",
    "Delete",
    "Estimate",
    "IndexState",
    "Instead",
    "KeyRange",
    "Layout",
    "Managers",
    "MetadataStore",
    "MetadataUrl",
    "NamedRecords",
    "Operation",
    "Outcome",
    "Read",
    "RecordKey",
    "ScannedRecord",
    "StandaloneHub",
    "StoreOptions",
    "SubscriptionDataManager",
    "TopicOwnershipManager",
    "TopicPersistenceManager",
    "TopicRecords",
    "Version",
    "Versioned",
    "VersionedTable",
    "Write",
    "WriteGate",
    "WriteLease",
    "change",
    "errors",
    "format_metadata",
    "open_metadata",
    "read_layout",
    "regions_for",
]
