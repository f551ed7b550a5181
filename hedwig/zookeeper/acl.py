"""Access control lists of nodes: who may do what with a node. A new node does not get that of its parent."""

from collections.abc import Iterable

from kazoo.security import ACL, OPEN_ACL_UNSAFE, Permissions, make_digest_acl

from hedwig.store_access import ZooKeeperAccess

__all__ = ["acl_of", "is_open_to_all"]


def acl_of(access: ZooKeeperAccess) -> list[ACL]:
    """Return the list for new nodes of a session: everything for each of its logins, or for everybody."""
    if not access.logins or not access.closes_nodes:
        return list(OPEN_ACL_UNSAFE)
    return [make_digest_acl(*login.split(":", 1), all=True) for login in access.logins]


def is_open_to_all(entries: Iterable[ACL]) -> bool:
    """Say whether everybody may change a node, or what is below it."""
    return any(entry.id.scheme == "world" and entry.perms & ~Permissions.READ for entry in entries)
