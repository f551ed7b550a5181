"""The ledger store on local disk: segment files shared by all ledgers. Its bytes: docs/reference/local-ledgers.md."""
