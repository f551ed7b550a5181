"""The command `hedwig-admin check perf`: whether a store is good enough for a deployment, measured in short runs."""

import os
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import click

from hedwig.cli.output.formats import Output
from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.errors import HedwigError, OperationError
from hedwig.human_units import counted
from hedwig.metadata import MetadataStore
from hedwig.operations.checks.perf_runs import Measured, PerfRuns
from hedwig.operations.checks.perf_terms import OPERATIONS, SIZES, PerfSize, Threshold
from hedwig.operations.checks.scratch_topics import SCRATCH_PREFIX, ScratchTopics, remove_left_over
from hedwig.operations.checks.verdicts import CheckExit, CheckStatus, exit_of
from hedwig.operations.deployment.store import with_store, with_store_to_write
from hedwig.operations.errors import explain
from hedwig.operations.progress import load_progress

__all__ = ["check_perf"]

_COLUMNS: Final = (
    "verdict",
    "operation",
    "p50_ms",
    "p99_ms",
    "p99_ms_max",
    "max_ms",
    "per_s",
    "per_s_min",
    "operations",
    "callers",
    "seconds",
)
_SHOWN: Final = ("verdict", "operation", "p50_ms", "p99_ms", "p99_ms_max", "per_s", "per_s_min")
_BUSY: Final = 2.0
"""At this load for each processor, a caller waits for a processor as long as for the store."""
_CLEAN: Final = "hedwig-admin check perf --clean"


@click.command("perf", cls=AdminCommand, example="hedwig-admin check perf --size s")
@click.option(
    "--size",
    type=click.Choice(list(SIZES)),
    default="s",
    show_default=True,
    help="Of the deployment: s is 10,000 topics, m 100,000, l 1,000,000, xl 10,000,000.",
)
@click.option("--clean", is_flag=True, help="Measure nothing; remove the topics that killed runs left.")
@click.pass_context
@pass_settings
def check_perf(settings: Settings, ctx: click.Context, size: str, clean: bool) -> None:
    """Measure whether a store is good enough for a deployment of --size topics, each with one subscription.

    The command creates up to 1,000 (s), 4,000 (m), 16,000 (l) or 64,000 (xl) topics below the prefix
    hedwig-check-perf/. It runs each operation on them for at most 30 seconds; the number of callers follows from the
    size. It removes all of them in the end, also after Ctrl-C. Hubs that use the store are slower meanwhile.

    An operation is PASS if it reaches the rate per_s_min, and 99 of 100 take at most p99_ms_max. Both follow from the
    size. The rates: all topics are loaded within an hour. Other hubs claim the topics of one hub of ten within five
    minutes, with two looks at the owner for each. One subscription of 200 is reading, and its pointer is stored every
    5 s. All topics are listed within ten minutes. The times: 0.1 s for what a client waits for, 1 s for a page of 1,000
    names.

    Exit codes: 0 all PASS, 2 some FAIL, 3 the store could not be measured.
    """
    output = settings.writer()
    try:
        if clean:
            removed = with_store(settings.deployment, lambda store: _clean(settings, store))
            output.record({"metadata": settings.deployment.url, "removed": removed})
            return
        verdicts = with_store_to_write(
            settings.deployment, lambda store: _check(settings, store, SIZES[size], output), gather=True
        )
    except OperationError as exc:
        click.echo(f"error: {exc}", err=True)
        ctx.exit(CheckExit.UNKNOWN)
    except HedwigError as exc:
        click.echo(f"error: {settings.command} failed: {explain(exc, settings.url_to_show)}", err=True)
        ctx.exit(CheckExit.UNKNOWN)
    failed = verdicts.count(CheckStatus.FAIL)
    said = "is good enough" if not failed else f"is not good enough: {counted(failed, 'operation')} too slow"
    click.echo(f"{settings.url_to_show} {said} for {SIZES[size].topics:,} topics, as seen from here", err=True)
    if failed:
        _say_if_busy()
    ctx.exit(exit_of(verdicts))


def _say_if_busy() -> None:
    """Report if this machine has so much other load that it may be the slow part."""
    processors = os.cpu_count() or 1
    load, _, _ = os.getloadavg()
    if load > _BUSY * processors:
        click.echo(
            f"this machine has a load of {load:.0f} on {counted(processors, 'processor')}, so it may be the slow part. "
            "Measure again when it has less to do, or from another machine",
            err=True,
        )


async def _check(settings: Settings, store: MetadataStore, size: PerfSize, output: Output) -> Sequence[CheckStatus]:
    """Measure everything, and in any case remove the topics that were made."""
    topics = ScratchTopics()
    try:
        return await _measure(PerfRuns(store, topics, size), size, output)
    finally:
        await _remove(settings, store, topics)


async def _measure(runs: PerfRuns, size: PerfSize, output: Output) -> Sequence[CheckStatus]:
    thresholds = size.thresholds()
    verdicts: list[CheckStatus] = []
    output.begin("operations", _COLUMNS, _SHOWN)
    try:
        await runs.warm_up()
        for operation in OPERATIONS:
            with load_progress(f"measuring {operation}", None, noun="operations") as progress:
                measured = await runs.run(operation, partial(progress.advance, read_bytes=0))
            verdicts.append(_verdict(measured, thresholds[operation]))
            output.page([_fields(operation, verdicts[-1], measured, thresholds[operation], size)])
    finally:
        output.end()
    return verdicts


def _verdict(measured: Measured, threshold: Threshold) -> CheckStatus:
    (p99_ms,) = measured.percentiles_ms(99)
    return CheckStatus.PASS if measured.per_s >= threshold.per_s and p99_ms <= threshold.p99_ms else CheckStatus.FAIL


def _fields(
    operation: str, verdict: CheckStatus, measured: Measured, threshold: Threshold, size: PerfSize
) -> dict[str, Any]:
    p50_ms, p99_ms, max_ms = measured.percentiles_ms(50, 99, 100)
    return {
        "verdict": str(verdict),
        "operation": operation,
        "p50_ms": round(p50_ms, 2),
        "p99_ms": round(p99_ms, 2),
        "p99_ms_max": threshold.p99_ms,
        "max_ms": round(max_ms, 2),
        "per_s": round(measured.per_s),
        "per_s_min": round(threshold.per_s, 1),
        "operations": measured.done,
        "callers": 1 if operation == "list" else size.callers,
        "seconds": round(measured.seconds, 3),
    }


async def _remove(settings: Settings, store: MetadataStore, topics: ScratchTopics) -> None:
    """Remove the topics of a run, or report that some remain."""
    try:
        with load_progress("removing the topics of the run", None, noun="topics") as progress:
            await topics.remove(settings.deployment, store, partial(progress.advance, read_bytes=0))
    except BaseException:
        click.echo(f"topics below {topics.folder}/ are left; remove them with: {_CLEAN}", err=True)
        raise


async def _clean(settings: Settings, store: MetadataStore) -> int:
    with load_progress(f"removing what is below {SCRATCH_PREFIX}/", None, noun="topics") as progress:
        return await remove_left_over(settings.deployment, store, partial(progress.advance, read_bytes=0))
