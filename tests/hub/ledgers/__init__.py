"""Tests of the ledger stores."""
