"""Ledgers: messages on disk, behind one small interface."""

from hub.ledgers.local.options import LocalLedgerOptions
from hub.ledgers.local.store import LocalLedgerStore
from hub.ledgers.store import InDoubt, LedgerStore, LedgerStoreStats

__all__ = ["InDoubt", "LedgerStore", "LedgerStoreStats", "LocalLedgerOptions", "LocalLedgerStore"]
