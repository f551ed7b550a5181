"""Drivers: what a workload runs against, and by which client."""
