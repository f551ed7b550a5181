"""How many files a process may have open."""

import resource

__all__ = ["raise_descriptor_limit"]


def raise_descriptor_limit() -> int:
    """Allow this process and its children the most descriptors that the system grants; return how many."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most
