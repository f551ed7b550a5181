"""Builds what a hub needs of access control, as its options say."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hedwig.access.mechanisms import Mechanism
from hedwig.clock import Clock
from hedwig.extras import needed
from hedwig.hub.access.access_control import AccessControl
from hedwig.hub.access.audit import Audit
from hedwig.hub.access.newcomers import Newcomers
from hedwig.hub.options.access_options import AccessOptions
from hedwig.hub.options.options import HubOptions
from hedwig.metadata import NamedRecords
from hedwig.metadata.access.rule_records import RuleRecords
from hedwig.metadata.access.user_records import UserRecords

if TYPE_CHECKING:
    from hedwig.hub.access.logins import Logins

__all__ = ["KEYS_LOOK_S", "open_access", "open_audit"]

KEYS_LOOK_S: Final = 2.0
"""How often the hub looks whether the keys of tokens may have changed."""


def open_audit(options: AccessOptions, clock: Clock, stack: AsyncExitStack) -> Audit | None:
    """Return the audit log, if the hub writes one. It is closed with `stack`. Raises: ConfigurationError."""
    if not options.audit_file:
        return None
    audit = Audit(Path(options.audit_file), options.audit_bytes_max, clock)
    stack.push_async_callback(audit.close)
    return audit


async def open_access(
    options: HubOptions, records: NamedRecords, clock: Clock, stack: AsyncExitStack, audit: Audit | None
) -> AccessControl:
    """Return access control that has not read the rules yet. It is closed with `stack`. Raises: ConfigurationError."""
    anonymous = {name: each.anonymous for name, each in options.listeners.items()}
    logins = await _open_logins(options, records, clock, stack, audit)
    return AccessControl(options.access, RuleRecords(records), clock, audit, anonymous, logins)


async def _open_logins(
    options: HubOptions, records: NamedRecords, clock: Clock, stack: AsyncExitStack, audit: Audit | None
) -> "Logins | None":
    offered = {"": options.access.mechanisms, **{name: each.mechanisms for name, each in options.listeners.items()}}
    if not any(offered.values()):
        return None
    with needed("hub", "logins need"):  # Only hubs with logins spend the memory.
        from hedwig.hub.access.logins import Logins
        from hedwig.hub.access.tokens import Tokens
    tokens = None
    if any(Mechanism.TOKEN in names for names in offered.values()):
        tokens = Tokens(options.access, clock)
        await tokens.look()
    newcomers = Newcomers(options.access.login_s, options.access.newcomers_max)
    stack.callback(newcomers.close)
    return Logins(offered, UserRecords(records), newcomers, options.access.login_s, tokens, clock, audit)
