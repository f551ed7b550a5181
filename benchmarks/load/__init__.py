"""The load: workloads, open and closed loops, their recordings, and the processes that generate load."""
