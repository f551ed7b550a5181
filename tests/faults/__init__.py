"""Faults: contention, lost replies and crashes, against real processes."""
