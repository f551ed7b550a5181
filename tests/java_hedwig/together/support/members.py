"""The two hubs of a deployment, with the same methods."""

import signal
from typing import Final, Protocol

from hedwig.cli.dev import ServerState
from hedwig.client import BlockingClient, ClientOptions, HubAddress
from tests.hub.support.admin_client import AdminClient
from tests.hub.support.running import RunningHub
from tests.java_hedwig.support.stack import JavaStack

__all__ = ["Member", "OriginalMember", "OurMember", "connect_ours"]


class Member(Protocol):
    """A hub that keeps its port."""

    @property
    def name(self) -> str:
        """The name in messages: `ours` or `original`."""
        ...

    is_usual: bool
    """Whether it was last started with its usual options."""

    @property
    def port(self) -> int: ...

    @property
    def is_running(self) -> bool: ...

    def is_at(self, address: str) -> bool:
        """Return whether host:port:sslport is its address."""
        ...

    def start(self) -> None:
        """Start it with its usual options, and wait until it serves."""
        ...

    def stop(self) -> None:
        """End it in order."""
        ...

    def kill(self) -> None:
        """End it as a crash does."""
        ...

    def pause(self) -> None:
        """Freeze it; its connections stay open."""
        ...

    def resume(self) -> None:
        """Resume it."""
        ...


class OurMember:
    """Our hub."""

    name: Final = "ours"

    def __init__(self, hub: RunningHub) -> None:
        self.hub = hub
        self.is_usual = True
        self._settings = hub.settings

    @property
    def port(self) -> int:
        return self.hub.port

    @property
    def is_running(self) -> bool:
        return self.hub.is_running

    @property
    def admin(self) -> AdminClient:
        """Return a client of its admin endpoint."""
        return AdminClient(self.hub.admin)

    def is_at(self, address: str) -> bool:
        return address.split(":")[1] == str(self.port)

    def start(self, **changes: object) -> None:
        """Start it, with `changes` of its options for this run; `__` stands for the dot in the name of an option."""
        self.is_usual = not changes
        self.hub.settings = (
            *self._settings,
            *(f"{name.replace('__', '.')}={value}" for name, value in changes.items()),
        )
        self.hub.start()

    def stop(self) -> None:
        self.hub.stop()

    def kill(self) -> None:
        self.hub.kill()

    def pause(self) -> None:
        assert self.hub.process is not None
        self.hub.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self.hub.process is not None
        self.hub.process.send_signal(signal.SIGCONT)


class OriginalMember:
    """The original hub, which keeps its owner records by compare-and-set."""

    name: Final = "original"

    def __init__(self, stack: JavaStack) -> None:
        self.stack = stack
        self.is_usual = True

    @property
    def port(self) -> int:
        return self.stack.hub_port

    @property
    def is_running(self) -> bool:
        return self.stack.hub_state is ServerState.RUNNING

    def is_at(self, address: str) -> bool:
        return address.split(":")[1] == str(self.port)

    def start(self, *, cas_owners: bool = True, **changes: object) -> None:
        """Start it, with `changes` of its properties for this run."""
        self.is_usual = cas_owners and not changes
        given = {name: str(value) for name, value in changes.items()}
        self.stack.start_hub(cas_owners=cas_owners, changes=given)

    def stop(self) -> None:
        self.stack.stop_hub()

    def kill(self) -> None:
        self.stack.kill_hub()

    def pause(self) -> None:
        self.stack.pause_hub()

    def resume(self) -> None:
        self.stack.resume_hub()


def connect_ours(member: Member) -> BlockingClient:
    """Open a client of our library whose default hub is `member`."""
    return BlockingClient(ClientOptions(hub=HubAddress("127.0.0.1", member.port)))
