"""The log of a topic: what it appends and delivers, the ledgers that hold it, and their ranges on record."""
