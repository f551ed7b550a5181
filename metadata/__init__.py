"""Metadata: topic ownership, ledger ranges and subscriptions, changed only by compare-and-set."""

from metadata.backend import Backend, BackendFactory, StoreOptions
from metadata.key_ranges import KeyRange
from metadata.layout import Layout
from metadata.managers import Managers, SubscriptionDataManager, TopicOwnershipManager, TopicPersistenceManager
from metadata.named_records import NamedRecords
from metadata.operations import Delete, Operation, Outcome, Read, RecordKey, Write
from metadata.scan import ScannedRecord
from metadata.standalone import StandaloneHub
from metadata.store import MetadataStore, format_metadata, open_metadata, read_layout
from metadata.table import VersionedTable
from metadata.url import MetadataUrl
from metadata.write_gate import WriteGate
from metadata.write_lease import WriteLease

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
