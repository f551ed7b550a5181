"""The suite `hedwig-bench metadata`: its options, the plan of a run, and how results are shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import click

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.load.descriptors import raise_descriptor_limit
from hedwig.benchmarks.machine.heaps import HEAP_MB_MIN
from hedwig.benchmarks.machine.jvm_flags import AS_IN_PRODUCTION
from hedwig.benchmarks.machine.quiescing import CALM_S, CORES_MAX, SECONDS_MAX
from hedwig.benchmarks.runs.results import Result
from hedwig.benchmarks.runs.resumption import note_resumption
from hedwig.benchmarks.stores.servers import BACKENDS, terms
from hedwig.benchmarks.suites.metadata.charts import metadata_sections
from hedwig.benchmarks.suites.metadata.run import MetadataRun
from hedwig.benchmarks.suites.metadata.sizes import FULL, QUICK, SMOKE, USUAL, MetadataSizes, Stage, stages
from hedwig.benchmarks.suites.metadata.tables import metadata_figures, metadata_tables
from hedwig.benchmarks.suites.metadata.workloads import ORDER, WorkloadFile, workload_files
from hedwig.benchmarks.suites.options import label_option, numbers, printed_option
from hedwig.benchmarks.suites.suite import Prepare, Run, Suite
from hedwig.operations.progress_lines import ProgressLines

__all__ = ["SUITE"]

_SIZES: Final = {"smoke": SMOKE, "quick": QUICK, "usual": USUAL, "full": FULL}
_RESTART: Final = (
    "one kill a step, with SIGKILL, so a figure without a spread; the server is started at once; owner, ledger ranges "
    "and a subscription of each topic of a sample are asked for, then one is made and deleted; HBase's time has in it "
    "until the master knows of the death, at most the session timeout, ZooKeeper's the pause of our client between "
    "two tries to connect, at most 1 s"
)
_USUAL_BACKENDS: Final = ("zookeeper", "hbase")


@click.argument("workloads", nargs=-1, metavar="[WORKLOAD]...")
@click.option(
    "--sizes", "preset", type=click.Choice(list(_SIZES)), default="usual", show_default=True, help="Sizes of the run."
)
@click.option("--quick", "preset", flag_value="quick", help="The same as --sizes quick: less than five minutes.")
@click.option("--full", "preset", flag_value="full", help="The same as --sizes full: up to 10 million topics.")
@click.option(
    "--backend",
    "backends",
    multiple=True,
    type=click.Choice(BACKENDS),
    help=f"Default: {', '.join(_USUAL_BACKENDS)}, in turn.",
)
@click.option(
    "--topics", callback=numbers, metavar="N,N…", help="The ladder of topic counts; 0: only the unsynced ladder."
)
@click.option("--subscribers", callback=numbers, metavar="N,N…", help="Subscriptions of each topic.")
@click.option(
    "--unsynced-topics",
    callback=numbers,
    metavar="N,N…",
    help="The ladder with logs that are not forced to the disk; 0: none.",
)
@click.option("--seconds", type=click.FloatRange(min=0.1), help="Length of a closed loop, its warm-up included.")
@click.option(
    "--offered-seconds",
    type=click.FloatRange(min=0.1),
    help="Length of a load that offers a rate, its warm-up included.",
)
@click.option(
    "--warmup", "warmup_s", type=click.FloatRange(min=0), help="Warm-up of each load in seconds, which does not count."
)
@click.option("--rounds", type=click.IntRange(min=1), help="Number of rounds, each of which measures everything.")
@click.option(
    "--heap",
    "heap_mb",
    type=click.IntRange(min=HEAP_MB_MIN),
    metavar="MIB",
    help="Heap of all virtual machines of a backend together.",
)
@click.option(
    "--fill-max",
    "fill_max_s",
    type=click.FloatRange(min=1),
    help="Seconds after which filling a step is a wall. The default grows with the number of records.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Decides which keys operations go to.")
@click.option(
    "--workloads",
    "folder",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Take workloads from this folder's TOML files instead of our own.",
)
@label_option
@click.option(
    "--run",
    "path",
    type=click.Path(path_type=Path, file_okay=False),
    help="The run's directory: the result, its report, and the servers' data during the run. An unfinished run "
    "continues there. Default: a new one in benchmarks/results.",
)
@printed_option
def _options(
    workloads: tuple[str, ...],
    preset: str,
    backends: tuple[str, ...],
    seed: int,
    folder: Path | None,
    **given: Any,
) -> Prepare:
    """Measure metadata backends as topics grow; without the name of a WORKLOAD, all usual ones.

    ZooKeeper and HBase stand beside each other on equal terms: the same heap in all, the same durability. The
    run starts the servers and ends them. A backend that meets a wall - memory, time, a packet limit - is a result: the
    run reports how it failed, and continues. The result file is written after each case.

    hedwig-bench takeover measures the death of a hub that owns a quarter of the topics, with hubs and their clients.
    hedwig-bench hub --on measures a hub with a million topics.
    """
    raise_descriptor_limit()
    chosen = tuple(dict.fromkeys(backends)) or _USUAL_BACKENDS
    sizes = _sizes(_SIZES[preset], given)
    files = workload_files(folder)
    names = _names(files, workloads)

    def prepare(run: Run) -> _MetadataPlan:
        return _MetadataPlan(
            terms=_terms(files, names, chosen, sizes, seed),
            stages=stages(files, names, sizes, seed),
            backends=chosen,
            sizes=sizes,
            seed=seed,
            directory=run.directory / "servers",
        )

    return prepare


@dataclass(frozen=True, slots=True, kw_only=True)
class _MetadataPlan:
    """A Plan of stages, which continues where an earlier run in the same directory ended."""

    terms: Mapping[str, Any]
    stages: Sequence[Stage]
    backends: Sequence[str]
    sizes: MetadataSizes
    seed: int
    directory: Path

    def carry_out(self, result: Result, path: Path) -> None:
        """Measure all that the result does not have yet."""
        lines = ProgressLines()
        MetadataRun(
            stages=self.stages,
            backends=self.backends,
            sizes=self.sizes,
            seed=self.seed,
            directory=self.directory,
            result=result,
            path=path,
            say=lines.say,
            say_for_now=lines.say_for_now,
        ).carry_out()


def _sizes(preset: MetadataSizes, given: dict[str, Any]) -> MetadataSizes:
    changed = {name: value for name, value in given.items() if value is not None}
    for ladder in {"topics", "unsynced_topics"} & changed.keys():
        changed[ladder] = tuple(count for count in changed[ladder] if count)
    return replace(preset, **changed)


def _names(files: dict[str, WorkloadFile], asked: Sequence[str]) -> Sequence[str]:
    if unknown := [name for name in asked if name not in files]:
        raise BenchmarkError(f"there is no workload {unknown[0]!r}: choose from {', '.join(files)}")
    return list(dict.fromkeys(asked)) or [name for name in ORDER if name in files] or list(files)


def _gone_on(result: Result, before: Result, other: str) -> Result:
    """Return the earlier result under the terms of the new one. Its measurements stay, walls included.

    Raises: BenchmarkError - the two cannot be one run.
    """
    if before.program != result.program or _but_rounds(before.terms) != _but_rounds(result.terms):
        raise BenchmarkError(f"the earlier run had other options: give the same ones, or another {other}")
    before.terms = result.terms
    before.is_complete = False
    note_resumption(before, result.environment, other)
    return before


def _but_rounds(terms: Mapping[str, Any]) -> dict[str, Any]:
    """Return the terms that a resumed run must share with the earlier one: all but the number of rounds."""
    return {**terms, "sizes": {name: value for name, value in terms["sizes"].items() if name != "rounds"}}


def _terms(
    files: dict[str, WorkloadFile],
    names: Sequence[str],
    backends: Sequence[str],
    sizes: MetadataSizes,
    seed: int,
) -> dict[str, Any]:
    return {
        **{
            durability: terms(backends, sizes.heap_mb, durability, sizes.topics_max)
            for durability in sizes.durabilities
        },
        "virtual machines": AS_IN_PRODUCTION,
        "a topic": "an empty record of ledger ranges, its subscriptions, and an owner if its number is even",
        "clients": "one process for each backend, opened as a hub opens its store; only one is at work at a time",
        "after filling": f"loads begin when all servers together have used {CORES_MAX:g} processors at most for "
        f"{CALM_S:g} s, or after {SECONDS_MAX:g} s",
        "disk": "what a restart would read: of ZooKeeper the newest snapshot and the logs since, of HBase no old logs "
        "and no archive",
        "live heap": "what a full collection leaves after the loads of a step; HBase's caches and unwritten changes "
        "are in it",
        "restart": _RESTART,
        "workloads": {name: files[name].says for name in names},
        "sizes": sizes.to_json(),
        "seed": seed,
        "closed loops": "time counts from when a request is made, so a stall delays what follows without showing in it",
    }


SUITE: Final = Suite(
    name="metadata",
    example="metadata --backend zookeeper --backend hbase --topics 10k,100k --rounds 3",
    options=_options,
    tables=metadata_tables,
    charts=metadata_sections,
    figures=metadata_figures,
    file_option="--run",
    has_directory=True,
    gone_on=_gone_on,
)
