"""Publishers that continue whatever happens to the hubs, and checks of their acknowledged messages."""

import itertools
import threading
from types import TracebackType
from typing import Final, Self

from hedwig.client import BlockingClient, ClientOptions, HubAddress
from hedwig.errors import ServiceError
from hedwig.model import Topic
from tests.java_hedwig.support.stack import eventually
from tests.java_hedwig.together.support.members import Member

__all__ = ["Traffic"]

_ANSWER_S: Final = 5.0
_PAUSE_S: Final = 0.05
_WORKERS: Final = 4
_END_S: Final = 60.0


class Traffic:
    """Publishes to one topic through each of the hubs, over and over, each body once. `with` starts and ends it."""

    def __init__(self, topic: bytes, members: tuple[Member, ...]) -> None:
        self.topic = Topic(topic)
        self.acknowledged: dict[int, bytes] = {}
        """The acknowledged body of each id."""
        self.doubtful: set[bytes] = set()
        """Unacknowledged bodies, which may be part of the topic or not."""
        self._members = members
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._defects: list[str] = []
        self._threads = [
            threading.Thread(target=self._run, args=(member, worker), name=f"publisher {worker}", daemon=True)
            for worker, member in zip(range(_WORKERS), itertools.cycle(members), strict=False)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(_END_S)
            assert not thread.is_alive(), f"{thread.name} does not end"

    def wait_for(self, more: int, what: str) -> None:
        """Wait until N more publishes are acknowledged."""
        wanted = len(self.acknowledged) + more

        def enough() -> bool:
            self.check()
            return len(self.acknowledged) >= wanted

        eventually(f"{more} publishes are acknowledged {what}", enough)

    def check(self) -> None:
        """Fail if two publishes got the same id, or if a publisher got an answer that no hub may give."""
        assert not self._defects, self._defects[:3]

    def check_delivered(self, delivered: list[tuple[int, bytes]]) -> None:
        """Fail unless this is the topic: ids 1, 2, 3 …, each acknowledged message under its id, and none twice."""
        self.check()
        assert [local for local, _ in delivered] == list(range(1, len(delivered) + 1))
        by_id = dict(delivered)
        missing = {local: body for local, body in self.acknowledged.items() if by_id.get(local) != body}
        assert not missing, f"acknowledged and not delivered so: {dict(itertools.islice(missing.items(), 3))}"
        bodies = [body for _, body in delivered]
        assert len(bodies) == len(set(bodies)), "a message was delivered under two ids"
        assert set(bodies) <= self.doubtful | set(self.acknowledged.values())

    def _run(self, member: Member, worker: int) -> None:
        hub = HubAddress("127.0.0.1", member.port)
        with BlockingClient(ClientOptions(hub=hub, answer_timeout_s=_ANSWER_S)) as client:
            last = 0
            while not self._stopping.is_set():
                body = b"%d by %d" % (next(self._numbers), worker)
                try:
                    local = client.publish(self.topic, body).local
                except ServiceError:
                    with self._lock:
                        self.doubtful.add(body)
                    self._stopping.wait(_PAUSE_S)
                    continue
                except Exception as exc:
                    self._defects.append(repr(exc))
                    raise
                with self._lock:
                    if local in self.acknowledged or local <= last:
                        self._defects.append(f"{body!r} got id {local}: {self.acknowledged.get(local)!r}, after {last}")
                    self.acknowledged[local] = body
                last = local
