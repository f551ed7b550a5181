"""Metadata: topic ownership, ledger ranges and subscriptions, changed only by compare-and-set."""

from hedwig.metadata.backend import Backend, BackendFactory, StoreOptions
from hedwig.metadata.key_ranges import KeyRange
from hedwig.metadata.layout import Layout
from hedwig.metadata.managers import Managers, SubscriptionDataManager, TopicOwnershipManager, TopicPersistenceManager
from hedwig.metadata.named_records import NamedRecords
from hedwig.metadata.operations import Delete, Operation, Outcome, Read, RecordKey, Write
from hedwig.metadata.scan import ScannedRecord
from hedwig.metadata.standalone import StandaloneHub
from hedwig.metadata.store import MetadataStore, format_metadata, open_metadata, read_layout
from hedwig.metadata.table import VersionedTable
from hedwig.metadata.url import MetadataUrl
from hedwig.metadata.write_gate import WriteGate
from hedwig.metadata.write_lease import WriteLease

if __name__ != "hedwig.metadata":
    # Under two names its classes exist twice, and none is an instance of the other.
    raise ImportError("metadata is imported as hedwig.metadata, by that name alone")

__all__ = [
    "Backend",
    "BackendFactory",
    "Delete",
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
    "VersionedTable",
    "Write",
    "WriteGate",
    "WriteLease",
    "format_metadata",
    "open_metadata",
    "read_layout",
]
