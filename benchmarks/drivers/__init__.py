"""Drivers: against what a workload runs, and by which client."""
