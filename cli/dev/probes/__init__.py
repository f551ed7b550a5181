"""Probes: whether a started server does its work. Our own clients ask it.

Raises in every function: NotReadyError - the server says that it does not, or says nothing in time; OSError - no
    server listens there.
"""
