"""The load: workloads, open and closed loops, what they record, and the processes that make it."""
