"""The log of a topic: its appends and reads, the ledgers that hold its messages, and their ranges on record."""
