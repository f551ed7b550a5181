"""Shared logs: the messages of all topics of a hub in the same BookKeeper ledgers, one segment after the other."""
