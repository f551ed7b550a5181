"""The ledger store on local disk: segment files that all ledgers share. Format: docs/reference/local-ledgers.md."""
