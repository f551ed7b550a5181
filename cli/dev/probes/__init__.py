"""Probes: whether a server that was started does its work. Our own clients ask.

Raises in every function: NotReadyError - the server says that it does not, or says nothing in time; OSError - nobody
    listens there.
"""
