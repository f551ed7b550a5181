"""The records of shared logs: which ledgers each consists of, and what refers to it."""
