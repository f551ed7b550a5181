"""The entries of segments: batches of records, and footers that say where the records of a ledger are."""
