"""Ledgers: messages on disk, behind one small interface."""

from hub.ledgers.local.options import LocalLedgerOptions
from hub.ledgers.local.store import LocalLedgerStore
from hub.ledgers.store import LedgerStore, LedgerStoreStats

__all__ = ["LedgerStore", "LedgerStoreStats", "LocalLedgerOptions", "LocalLedgerStore"]
