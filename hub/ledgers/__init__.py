"""Ledgers: messages on disk, behind one small interface."""

from hedwig.hub.ledgers.local.options import LocalLedgerOptions
from hedwig.hub.ledgers.local.store import LocalLedgerStore
from hedwig.hub.ledgers.store import InDoubt, LedgerStore, LedgerStoreStats, LogCounters

__all__ = ["InDoubt", "LedgerStore", "LedgerStoreStats", "LocalLedgerOptions", "LocalLedgerStore", "LogCounters"]
