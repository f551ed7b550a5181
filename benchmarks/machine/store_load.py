"""How many requests the stores below hubs serve each second, by their own counters."""

import contextlib
import itertools
import json
import time
import urllib.request
from collections.abc import Sequence
from typing import Any, Final

from hedwig.benchmarks.machine.periodic import Periodic
from hedwig.cli.dev.probes.sockets import four_letter_word

__all__ = ["StoreLoad", "claims_of"]

_INTERVAL_S: Final = 1.0
_ASK_S: Final = 5.0
_BEAN: Final = "Hadoop:service=HBase,name=RegionServer,sub=Server"
_ACQUIRED: Final = "hedwig_hub_acquired_topics_total"
_SECOND_NS: Final = 1_000_000_000


class StoreLoad(Periodic):
    """Counters of ZooKeeper, the region server and hubs, read every second in `with` and at its end.

    zookeeper: its port. The counter `zookeeper` counts packets received, pings included.
    hbase_info: the port of the region server's own page, which may rarely update. `hbase` counts calls, `hbase_rows`
        the actions on rows in them.
    hubs: admin endpoints, host:port. `claims` counts topics that these hubs claimed.
    A sample leaves out servers that do not answer.
    """

    def __init__(self, *, zookeeper: int, hbase_info: int, hubs: Sequence[str]) -> None:
        self._zookeeper = zookeeper
        self._hbase_info = hbase_info
        self._hubs = hubs
        self._samples: list[tuple[int, dict[str, float]]] = []
        super().__init__("store load", _INTERVAL_S)

    def per_s(self, counter: str, begin_ns: int, end_ns: int) -> float | None:
        """Return the mean rate of a counter between two moments, from the samples around them; None without samples."""
        seen = self._changes(counter)
        before = [each for each in seen if each[0] <= begin_ns] or seen[:1]
        after = [each for each in seen if each[0] >= end_ns] or seen[-1:]
        if not before or not after or after[0][0] <= before[-1][0]:
            return None
        (from_ns, first), (to_ns, last) = before[-1], after[0]
        return (last - first) / ((to_ns - from_ns) / _SECOND_NS)

    def peak_per_s(self, counter: str, begin_ns: int, end_ns: int) -> float | None:
        """Return the highest rate of a counter between two of its samples in that time."""
        seen = [each for each in self._changes(counter) if begin_ns - _SECOND_NS <= each[0] <= end_ns + _SECOND_NS]
        rates = [
            (after[1] - before[1]) / ((after[0] - before[0]) / _SECOND_NS) for before, after in itertools.pairwise(seen)
        ]
        return max(rates, default=None)

    def series(self, start_ns: int) -> dict[int, dict[str, float]]:
        """Return the counters by second after a moment."""
        return {(at_ns - start_ns) // _SECOND_NS: counters for at_ns, counters in self._samples if at_ns >= start_ns}

    def _changes(self, counter: str) -> list[tuple[int, float]]:
        """Return the samples of a counter; of HBase's, which rarely update, only the first of equal values."""
        changes: list[tuple[int, float]] = []
        for at_ns, counters in self._samples:
            if counter in counters and not (
                counter.startswith("hbase") and changes and changes[-1][1] == counters[counter]
            ):
                changes.append((at_ns, counters[counter]))
        return changes

    def _sample(self) -> None:
        counters: dict[str, float] = {}
        for ask in (self._ask_zookeeper, self._ask_hbase, self._ask_hubs):
            with contextlib.suppress(OSError, ValueError, KeyError, IndexError):
                ask(counters)
        self._samples.append((time.monotonic_ns(), counters))

    def _ask_zookeeper(self, counters: dict[str, float]) -> None:
        for line in four_letter_word(self._zookeeper, "mntr").splitlines():
            name, _, value = line.partition("\t")
            if name == "zk_packets_received":
                counters["zookeeper"] = float(value)

    def _ask_hbase(self, counters: dict[str, float]) -> None:
        bean: dict[str, Any] = json.loads(_got(f"127.0.0.1:{self._hbase_info}/jmx?qry={_BEAN}"))["beans"][0]
        counters["hbase"] = float(bean["totalRequestCount"])
        counters["hbase_rows"] = float(bean["totalRowActionRequestCount"])

    def _ask_hubs(self, counters: dict[str, float]) -> None:
        counters["claims"] = claims_of(self._hubs)


def claims_of(hubs: Sequence[str]) -> float:
    """Return how many topics hubs have claimed; `hubs` are their admin endpoints, host:port. Raises: OSError."""
    claims = 0.0
    for admin in hubs:
        for line in _got(f"{admin}/metrics").splitlines():
            if line.startswith(f"{_ACQUIRED} "):
                claims += float(line.split()[1])
    return claims


def _got(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}", timeout=_ASK_S) as answer:
        text: bytes = answer.read()
    return text.decode()
