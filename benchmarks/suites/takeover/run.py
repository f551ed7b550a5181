"""A takeover storm: hubs own many topics between them, and one hub is killed while clients use some of the topics."""

import asyncio
import random
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.load.cases import Case
from hedwig.benchmarks.load.generator_process import GeneratorProcess
from hedwig.benchmarks.load.workloads import Workload
from hedwig.benchmarks.machine.jvm_flags import NoteFlags, flags_as_in_production, flags_of_servers
from hedwig.benchmarks.machine.sampling import Sampler
from hedwig.benchmarks.machine.store_load import StoreLoad, claims_of
from hedwig.benchmarks.runs.results import Measurement
from hedwig.benchmarks.stores.dataset import FillTask
from hedwig.benchmarks.stores.fill import fill
from hedwig.benchmarks.stores.servers import (
    HADOOP_3,
    LASTING_HBASE,
    LASTING_SESSIONS,
    SYNCED,
    SYNCED_LOG,
    UNSYNCED,
    UNSYNCED_LOG,
)
from hedwig.benchmarks.suites.hub.process import HubProcess
from hedwig.benchmarks.suites.hub.servers import BOOKIES, HEAP_MB, JOURNALS
from hedwig.benchmarks.suites.takeover.owners import read_owners, write_owners
from hedwig.benchmarks.suites.takeover.record import PHASES, TakeoverSummary
from hedwig.benchmarks.suites.takeover.sizes import TakeoverSizes
from hedwig.cli.dev import DevServers
from hedwig.cli.dev.ports import choose_port
from hedwig.cli.dev.servers.bookkeeper import LEDGERS_ROOT
from hedwig.errors import HedwigError
from hedwig.metadata import open_metadata
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.store import format_metadata

__all__ = ["REGIONS", "TakeoverRuns"]

_SECOND_NS: Final = 1_000_000_000
REGIONS: Final = 16
_STORED_S: Final = 7200.0
_FILLED_PER_S: Final = 50
_OPEN_S: Final = 120.0
_DRAIN_S: Final = 30.0
_SUMMARY_S: Final = 120.0
_START_AHEAD_S: Final = 0.5
_OWNED_POLL_S: Final = 0.1
_COUNTERS: Final = ("zookeeper", "hbase", "hbase_rows", "claims")


class TakeoverRuns:
    """Runs storms on servers that it starts. Each storm has its own hubs and topics."""

    def __init__(
        self,
        directory: Path,
        sizes: TakeoverSizes,
        settings: Sequence[str],
        seed: int,
        progress: Callable[[str], None],
        note_flags: NoteFlags,
    ) -> None:
        """Prepare storms. `note_flags` receives the flags of the servers' virtual machines, once they run."""
        self._directory = directory
        self.sizes = sizes
        self._note_flags = note_flags
        self._settings = settings
        self._seed = seed
        self._progress = progress
        self._info_port = choose_port(set(), random.Random())
        self._is_up = False
        heaps = {"bookie": HEAP_MB["bookie"], **sizes.heaps}
        self._servers = DevServers(
            directory / "servers",
            progress=progress,
            heap_mb=heaps,
            java_flags=flags_as_in_production(heaps),
            # The other build of HBase never syncs. Unsynced storms use this build too, so that all have the same one.
            classpaths=dict.fromkeys(("hbase-master", "regionserver"), HADOOP_3),
            zookeeper_properties=LASTING_SESSIONS | ({} if sizes.is_synced else {"forceSync": "no"}),
            hbase_properties={
                **(SYNCED_LOG if sizes.is_synced else UNSYNCED_LOG),
                **LASTING_HBASE,
                "hbase.regionserver.msginterval": "3000",
                "hbase.hregion.memstore.mslab.enabled": "true",
                # The region server's page reports how many requests it has served.
                "hbase.regionserver.info.port": str(self._info_port),
                "hbase.regionserver.info.bindAddress": "127.0.0.1",
            },
            bookie_properties=JOURNALS["quick"],
        )

    def close(self) -> None:
        """End the servers."""
        self._servers.down()

    def measure(self, case: Case, number: int) -> Measurement:
        """Run a storm as round `number`. An error becomes the measurement's wall."""
        directory = self._directory / f"round-{number}"
        try:
            return self._measure(case.workload, number, directory)
        except HedwigError as exc:
            return Measurement(workload=case.workload, driver=case.driver, round=number, wall=str(exc))
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def _measure(self, workload: Workload, number: int, directory: Path) -> Measurement:
        sizes = self.sizes
        if self._is_up and sizes.stored:
            # Otherwise the records of the previous round would be in the heaps and files of the servers.
            self._servers.down()
            self._is_up = False
        if not self._is_up:
            self._servers.up(["zookeeper"])  # This makes the directory one of servers: then it may have other files.
            _tell_every_second(self._directory / "servers" / "conf" / "regionserver-1")
            services = ["bookkeeper", *(["hbase"] if sizes.metadata == "hbase" else [])]
            self._servers.up(services, bookies=BOOKIES)
            self._is_up = True
            flags = {f"{sizes.metadata}/{kind}": each for kind, each in flags_of_servers(self._servers).items()}
            self._note_flags(SYNCED if sizes.is_synced else UNSYNCED, flags)
        url = self._url(number)
        asyncio.run(format_metadata(url, StoreOptions(regions=REGIONS)))
        self._progress(f"filling {sizes.metadata} with {sizes.topics_stored:,} topics")
        asyncio.run(self._store_topics(url))
        with ExitStack() as stack:
            hubs = [
                stack.enter_context(
                    HubProcess(directory / f"hub-{each}", self._hub_settings(url, number), has_admin=True)
                )
                for each in range(sizes.hubs)
            ]
            victim, survivors = hubs[-1], hubs[:-1]
            used = random.Random(self._seed).sample(range(sizes.topics), sizes.used)
            plan = {
                "hubs": [hub.address for hub in survivors],
                "claimed": 0 if sizes.writes_owners else sizes.topics,
                "prefix": workload.prefix,
                "used": used,
                "attached": used[: sizes.attached],
                "rate_per_s": sizes.rate_per_s,
                "message_bytes": sizes.message_bytes,
                "served_max_s": sizes.served_max_s,
                "drain_s": _DRAIN_S,
            }
            claimed = sizes.used if sizes.writes_owners else sizes.topics
            self._progress(f"{sizes.hubs} hubs claim {claimed:,} topics")
            client = stack.enter_context(
                GeneratorProcess(plan, (sys.executable, "-m", "hedwig.benchmarks.suites.takeover.client"))
            )
            client.hear("filled", time.monotonic() + _OPEN_S + sizes.topics / _FILLED_PER_S)
            client.hear("ready", time.monotonic() + _OPEN_S + sizes.used / _FILLED_PER_S)
            owned = asyncio.run(self._topics_of(url, victim.address, workload.prefix, used))
            if not owned.used and not owned.asked:
                raise BenchmarkError("the hub to kill owns no topic that clients use or ask for: use more topics")
            self._progress(f"of {sizes.used:,} topics in use, the hub to kill owns {len(owned.used):,}")
            return self._storm(workload, number, client, victim, survivors, owned)

    def _url(self, number: int) -> str:
        zookeeper = self._servers.address("zookeeper")
        if self.sizes.metadata == "hbase":
            return f"hbase://{zookeeper}/takeover{number}"
        return f"zookeeper://{zookeeper}/takeover-metadata-{number}/standalone"

    async def _store_topics(self, url: str) -> None:
        """Make topics in the state in which hubs release them. Raises BenchmarkError - not all could be made."""
        task = FillTask(first=0, last=self.sizes.topics_stored, subscribers=1, seconds_max=_STORED_S, is_released=True)
        async with await open_metadata(url, StoreOptions(gather=True)) as store:
            summary, why = await fill(store, task)
        if why is not None:
            failed = ", ".join(f"{count:,} {name}" for name, count in summary.errors.most_common())
            raise BenchmarkError(f"the store could not be filled: {why}; attempts that failed: {failed or 'none'}")

    def _hub_settings(self, url: str, number: int) -> list[str]:
        zookeeper = self._servers.address("zookeeper")
        return [
            f"metadata={url}",
            f"cluster.zookeeper=zookeeper://{zookeeper}/takeover/{number}",
            f"cluster.session_timeout_s={self.sizes.session_timeout_s:g}",
            # Each hub owns its share, and topics move only because of the kill.
            "cluster.placement=uniform",
            "cluster.rebalance_interval_s=0",
            "topic_idle_s=0",
            f"topics_max={2 * self.sizes.topics + 1_000}",
            f"bookkeeper.zookeeper=zookeeper://{zookeeper}{LEDGERS_ROOT}",
            *self._settings,
        ]

    async def _topics_of(self, url: str, address: str, prefix: str, used: Sequence[int]) -> "_Owned":
        """Return the topics in use that a hub owns, and those of its other topics that clients will ask for.

        If the sizes say so, write the owners of the topics that are not in use first.
        """
        sizes, is_used = self.sizes, frozenset(used)
        in_use = await read_owners(url, prefix, used)
        others: Sequence[int] = []
        if sizes.writes_owners:
            self._progress(f"writing the owners of {sizes.topics - len(used):,} topics")
            rest = [topic for topic in range(sizes.topics) if topic not in is_used]
            others = (await write_owners(url, prefix, rest, in_use.infos)).topics.get(address, [])
        elif sizes.ask or self._takes_over:
            owned = (await read_owners(url, prefix, range(sizes.topics))).topics.get(address, [])
            others = [topic for topic in owned if topic not in is_used]
        asked = random.Random(self._seed + 1).sample(others, round(sizes.ask * len(others)))
        own = list(in_use.topics.get(address, []))
        return _Owned(own, asked, len(own) + len(others))

    @property
    def _takes_over(self) -> bool:
        """Whether the hubs take over topics that nobody asks for."""
        return "cluster.takeover_rate=0" not in self._settings

    @staticmethod
    def _owned_at(survivors: Sequence[HubProcess], claims: float, until: float) -> int:
        """Wait until hubs have claimed so many topics, and return when that was. Raises BenchmarkError - too late."""
        while claims_of([hub.admin for hub in survivors]) < claims:
            if time.monotonic() > until:
                raise BenchmarkError("the other hubs did not take over all topics of the killed hub in time")
            time.sleep(_OWNED_POLL_S)
        return time.monotonic_ns()

    def _storm(
        self,
        workload: Workload,
        number: int,
        client: GeneratorProcess,
        victim: HubProcess,
        survivors: Sequence[HubProcess],
        owned: "_Owned",
    ) -> Measurement:
        sizes = self.sizes
        roles = self._roles(survivors, client)
        load = StoreLoad(
            zookeeper=self._servers.port("zookeeper-1"),
            hbase_info=self._info_port,
            hubs=[hub.admin for hub in survivors],
        )
        with Sampler(roles) as sampler, load:
            start_ns = time.monotonic_ns() + round(_START_AHEAD_S * _SECOND_NS)
            client.tell({"start_ns": start_ns})
            time.sleep(_START_AHEAD_S + sizes.before_s)
            claims = claims_of([hub.admin for hub in survivors])
            lost_ns = time.monotonic_ns()
            victim.kill()
            client.tell({"lost_ns": lost_ns, "used": owned.used, "asked": owned.asked})
            self._progress("killed the hub; waiting until all topics that clients ask for are served again")
            not_served = client.hear("served", time.monotonic() + sizes.served_max_s + _DRAIN_S)
            owned_ns = None
            if self._takes_over:
                self._progress("waiting until the other hubs own the rest, too")
                owned_ns = self._owned_at(survivors, claims + owned.count, time.monotonic() + sizes.served_max_s)
            time.sleep(sizes.after_s)
            end_ns = time.monotonic_ns()
            client.tell({"owned_ns": owned_ns})
            summary = TakeoverSummary.from_json(client.hear("summary", time.monotonic() + _DRAIN_S + _SUMMARY_S))
        measurement = Measurement(workload=workload, driver="client", round=number)
        _note_summary(measurement, summary)
        measurement.reported["killed"] = victim.address
        measurement.seconds = (end_ns - start_ns) / _SECOND_NS
        measurement.values |= {
            "hubs": sizes.hubs,
            "used_topics": sizes.used,
            "attached_topics": sizes.attached,
            "used_of_killed": len(owned.used),
            "asked_of_killed": len(owned.asked),
            "not_served": not_served,
            "session_timeout_s": sizes.session_timeout_s,
            "killed_at_s": (lost_ns - start_ns) / _SECOND_NS,
            "all_served_s": (summary.all_served_ns - lost_ns) / _SECOND_NS,
        }
        if owned_ns is not None:
            measurement.values |= {
                "owned_by_killed": owned.count,
                "all_owned_s": (owned_ns - lost_ns) / _SECOND_NS,
            }
        if not_served:
            measurement.wall = (
                f"{not_served:,} of {len(owned.used) + len(owned.asked):,} topics were not served again within "
                f"{sizes.served_max_s:g} s"
            )
        moments = {
            PHASES[0]: (start_ns, lost_ns),
            PHASES[1]: (lost_ns, summary.calm_ns),
            PHASES[2]: (summary.calm_ns, end_ns),
        }
        for phase, (from_ns, to_ns) in moments.items():
            for role in roles:
                if (cores := sampler.cores(role, from_ns, to_ns)) is not None:
                    measurement.values[f"{role}_cores_{phase}"] = cores
            for counter in _COUNTERS:
                if (rate := load.per_s(counter, from_ns, to_ns)) is not None:
                    measurement.values[f"{counter}_per_s_{phase}"] = rate
        for counter in _COUNTERS:
            if (peak := load.peak_per_s(counter, lost_ns, summary.calm_ns)) is not None:
                measurement.values[f"{counter}_per_s_peak"] = peak
        for second, counters in load.series(start_ns).items():
            measurement.series.setdefault(second, {})["counters"] = counters
        for second, usages in sampler.series(start_ns).items():
            measurement.series.setdefault(second, {}).update(usages)
        return measurement

    def _roles(self, survivors: Sequence[HubProcess], client: GeneratorProcess) -> dict[str, list[int]]:
        status = [each for each in self._servers.status() if each.pid is not None]
        pids = {
            kind: [each.pid for each in status if each.kind == kind and each.pid is not None]
            for kind in ("zookeeper", "regionserver", "bookie")
        }
        return pids | {"hubs": [hub.pid for hub in survivors], "client": [client.pid]}


def _tell_every_second(configuration: Path) -> None:
    """Have a region server refresh its metrics every second; the default is every 10 s."""
    configuration.mkdir(parents=True, exist_ok=True)
    (configuration / "hadoop-metrics2-hbase.properties").write_text("*.period=1\n")


@dataclass(frozen=True, slots=True)
class _Owned:
    """Topics of the hub that is killed: those in use, others that the client asks for after the kill, and how many."""

    used: list[int]
    asked: list[int]
    count: int


def _note_summary(measurement: Measurement, summary: TakeoverSummary) -> None:
    measurement.histograms = {"served": summary.served, "delivered": summary.delivered}
    measurement.reported = {"slowest": summary.slowest}
    values: dict[str, Any] = {"unfinished_topics": summary.unfinished}
    for phase in PHASES:
        measurement.histograms[f"others_{phase}"] = summary.others[phase]
        measurement.histograms[f"own_{phase}"] = summary.own[phase]
        for status, count in summary.errors[phase].items():
            measurement.errors[status] += count
            values[f"errors_{phase}_{status}"] = count
    measurement.count = sum(each.count for each in (*summary.others.values(), *summary.own.values()))
    measurement.values |= values
    for number, second in summary.series.items():
        measurement.series.setdefault(number, {}).update(second.to_json())
