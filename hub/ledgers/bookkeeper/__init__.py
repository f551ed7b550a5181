"""A client of BookKeeper, and the ledger store on it."""
