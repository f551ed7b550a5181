"""The deployment: the original's servers, its hub with owner records kept by compare-and-set, and our hub."""

import asyncio
import random
import urllib.parse
from pathlib import Path
from typing import Final, Self

from google.protobuf import text_format
from kazoo.exceptions import NoNodeError

from hedwig.cli.dev.ports import choose_port
from hedwig.client import BlockingClient
from hedwig.errors import ClientNotSubscribedError, ServiceError
from hedwig.metadata import format_metadata
from hedwig.model import HubInfo, SubscriberId, Topic
from hedwig.wire import pubsub_pb2 as pb
from tests.hub.support.running import RunningHub
from tests.java_hedwig.support.hub_client import HubClient
from tests.java_hedwig.support.stack import REGION_PATH, JavaStack, eventually
from tests.java_hedwig.together.support.members import Member, OriginalMember, OurMember, connect_ours

__all__ = ["MESSAGES_PER_LEDGER", "QUORUMS", "Deployment"]

BOOKIES: Final = 3
MESSAGES_PER_LEDGER: Final = 4
QUORUMS: Final = {"ensemble": 3, "write_quorum": 2, "ack_quorum": 2}
_SESSION_S: Final = 4

_PROPERTIES: Final = {
    "max_entries_per_ledger": str(MESSAGES_PER_LEDGER),
    "consume_interval": "1",
    "messages_consumed_thread_run_interval": "1000",
    "rebalance_interval_sec": "0",
    "rebalance_tolerance": "10.0",
    "retention_secs": "0",
    "zk_timeout": str(_SESSION_S * 1000),
    **{f"bk_{name}_size": str(size) for name, size in QUORUMS.items()},
}


class Deployment:
    """Both hubs and their servers. `with` starts and ends them all."""

    def __init__(self, directory: Path) -> None:
        self.java = JavaStack(directory / "servers", bookies=BOOKIES, properties=_PROPERTIES)
        self._directory = directory
        self.ours: OurMember
        self.original: OriginalMember

    def __enter__(self) -> Self:
        try:
            self.java.start_stores()
            asyncio.run(format_metadata(self.java.metadata_url))
            self.ours = OurMember(RunningHub(self._directory / "ours", *self._settings()))
            self.ours.start()
            self.java.start_hub(cas_owners=True)
            self.original = OriginalMember(self.java)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        if hasattr(self, "ours"):
            self.ours.hub.kill()
        self.java.servers.down()

    def _settings(self) -> tuple[str, ...]:
        zookeeper = f"zookeeper://{self.java.zookeeper}"
        return (
            f"metadata={zookeeper}{REGION_PATH}",
            f"cluster.zookeeper={zookeeper}{REGION_PATH}",
            f"cluster.session_timeout_s={_SESSION_S}",
            "cluster.rebalance_interval_s=0",
            f"bookkeeper.zookeeper={zookeeper}/ledgers",
            "bookkeeper.compat=4.3",
            *(f"bookkeeper.{name}={size}" for name, size in QUORUMS.items()),
            f"ledger_messages_max={MESSAGES_PER_LEDGER}",
            "consume_interval=1",
            "retention_interval_s=3600",
            # A port outside the range of outgoing connections: one of those could take the port while the hub is down.
            f"port={choose_port((), random.Random())}",
        )

    @property
    def members(self) -> tuple[Member, Member]:
        """Return both hubs."""
        return self.ours, self.original

    def other(self, member: Member) -> Member:
        """Return the hub that `member` is not."""
        return self.original if member is self.ours else self.ours

    def named(self, address: str | None) -> Member:
        """Return the hub at host:port:sslport."""
        (hub,) = [member for member in self.members if address is not None and member.is_at(address)]
        return hub

    # -------------------------------------------------------------------------- what is done past the code under test

    def address(self, member: Member) -> str:
        """Return host:port:sslport of a hub that is registered."""
        info = self.registered(member)
        assert info is not None, f"{member.name} is not registered"
        return info.address

    def give(self, topic: bytes, member: Member) -> None:
        """Make `member` the owner of an unowned topic: write the record as original hubs do, and send a request."""
        info = self.registered(member)
        assert info is not None, f"{member.name} is not registered"
        text = text_format.MessageToString(pb.HubInfoData(hostname=info.address, czxid=info.epoch))
        with self.java.znodes() as raw:
            raw.create(f"{REGION_PATH}/topics/{topic.decode()}/hub", text.encode(), makepath=True)
        with HubClient(member.port) as client:
            client.close_subscription(topic, b"nobody")

    def release(self, topic: bytes) -> None:
        """Make our hub release a topic that it owns."""
        self.ours.admin.post(f"/release?{urllib.parse.urlencode({'topic': topic})}")
        assert self.owner(topic) is None

    def pointer(self, topic: bytes, subscriber: str) -> int:
        """Return the stored consume pointer of a subscription."""
        with self.java.znodes() as raw:
            data, _ = raw.get(f"{REGION_PATH}/topics/{topic.decode()}/subscribers/{subscriber}")
        return pb.SubscriptionData.FromString(data).state.msgId.localComponent

    def has_consumed(self, topic: bytes, subscriber: str, local: int) -> bool:
        """Return whether that is the stored consume pointer."""
        return self.pointer(topic, subscriber) == local

    # ------------------------------------------------------------------------ what is seen past the code under test

    def registered(self, member: Member) -> HubInfo | None:
        """Return the hub as its host node shows it, or None if it has no node."""
        with self.java.znodes() as raw:
            for name in raw.get_children(f"{REGION_PATH}/hosts"):
                stat = raw.exists(f"{REGION_PATH}/hosts/{name}")
                if stat is not None and member.is_at(name):
                    return HubInfo.at(name, epoch=stat.czxid)
        return None

    def wait_gone(self, incarnation: HubInfo) -> None:
        """Wait until ZooKeeper has forgotten an incarnation of a hub."""
        path = f"{REGION_PATH}/hosts/{incarnation.address}"
        with self.java.znodes() as raw:
            eventually(
                f"the session of hub {incarnation.address} ends",
                lambda: (stat := raw.exists(path)) is None or stat.czxid != incarnation.epoch,
            )

    def wait_over(self, member: Member, incarnation: HubInfo) -> None:
        """Wait until a resumed hub notices that its session is over: it ended, or is registered again."""
        eventually(
            f"{member.name} finds out that its session is over",
            lambda: not member.is_running or self.registered(member) not in (None, incarnation),
        )

    def serving(self, topic: bytes) -> Member:
        """Return the current owner of a topic, after a request that makes one of the hubs own it."""
        with connect_ours(self.ours) as client:
            eventually(f"{topic!r} is served", lambda: _asked(client, topic))
        owner = self.owner(topic)
        assert owner is not None
        return self.named(owner.address)

    def restore(self) -> None:
        """Start both hubs with their usual options."""
        for member in self.members:
            if member.is_running and not member.is_usual:
                member.stop()
            if not member.is_running:
                self.wait_unregistered(member)
                member.start()

    def stop_both(self) -> None:
        """End both hubs in order, so that they own nothing, and can start with other options."""
        for member in self.members:
            if member.is_running:
                member.stop()
            self.wait_unregistered(member)

    def wait_unregistered(self, member: Member) -> None:
        """Wait until no hub is registered at the address of `member`."""
        eventually(f"{member.name} is forgotten", lambda: self.registered(member) is None)

    def loads(self) -> dict[str, int]:
        """Return the number of topics that each hub announces, by its name."""
        loads = {}
        with self.java.znodes() as raw:
            for name in raw.get_children(f"{REGION_PATH}/hosts"):
                data, _ = raw.get(f"{REGION_PATH}/hosts/{name}")
                loads[self.named(name).name] = text_format.Parse(data.decode(), pb.HubLoadData()).numTopics
        return loads

    def owner(self, topic: bytes) -> HubInfo | None:
        """Return the hub in the owner record of a topic."""
        with self.java.znodes() as raw:
            try:
                data, _ = raw.get(f"{REGION_PATH}/topics/{topic.decode()}/hub")
            except NoNodeError:
                return None
        message = text_format.Parse(data.decode(), pb.HubInfoData())
        return HubInfo.at(message.hostname, epoch=message.czxid)

    def ranges(self, topic: bytes) -> pb.LedgerRanges:
        """Return the range record of a topic without our own field."""
        with self.java.znodes() as raw:
            data, _ = raw.get(f"{REGION_PATH}/topics/{topic.decode()}/ledgers")
        ranges = pb.LedgerRanges.FromString(data)
        ranges.ClearField("writeStamp")
        return ranges


def _asked(client: BlockingClient, topic: bytes) -> bool:
    """Send a request for a topic that changes nothing; return whether its owner answered."""
    try:
        client.unsubscribe(Topic(topic), SubscriberId(b"nobody"))
    except ClientNotSubscribedError:
        return True
    except ServiceError:
        return False
    return True
