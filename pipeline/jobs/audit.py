"""The job `audit`: report what is wrong with the metadata of a store, and the lag, backlog and load of its parts."""

import json
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

import click

from hedwig.names import show_name
from hedwig.pipeline.command import Job, JobCommand, pass_job
from hedwig.pipeline.jobs.options import corrupt_option, folder_name, timeout_option
from hedwig.pipeline.source.job_options import ScanOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hedwig.model import HubInfo
    from hedwig.operations.deployment.deployment import Deployment

__all__ = ["command"]


@click.command("audit", cls=JobCommand, example="hedwig-pipeline audit ./snapshot ./audit --hub 10.0.0.5:4080:-1@3")
@click.argument("source")
@click.argument("directory", callback=folder_name)
@click.option(
    "--hub",
    "named",
    multiple=True,
    metavar="HOST:PORT:SSLPORT@EPOCH",
    help="A hub that is alive, SSLPORT -1 for none; may be given again. Owners of all others are stale.",
)
@click.option(
    "--cluster", metavar="URL", help="The hubs' cluster.zookeeper, to the letter: ask there which hubs are alive."
)
@click.option("--data", metavar="DIR", help="Data directory of a standalone hub: look for its ledgers there.")
@click.option("--bookkeeper", metavar="URL", help="Look for ledgers on these bookies: zookeeper://host:2181/ledgers.")
@click.option(
    "--top", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many of the largest to report."
)
@corrupt_option
@timeout_option
@pass_job
def command(
    job: Job,
    source: str,
    directory: str,
    named: tuple[str, ...],
    cluster: str | None,
    data: str | None,
    bookkeeper: str | None,
    top: int,
    scan: ScanOptions,
    timeout_s: int,
) -> None:
    """Audit SOURCE, the folder of a snapshot or the URL of a store, and write the result into DIRECTORY.

    Parquet of all findings and figures, and audit.html for people. A store is read once, into DIRECTORY/snapshot. Lag
    and backlog count the messages of closed ledgers; with --data or --bookkeeper the job asks open ledgers, too.
    """
    from hedwig.metadata import IndexState
    from hedwig.operations.deployment.cluster import read_registered_cluster
    from hedwig.operations.deployment.deployment import Deployment, without_making
    from hedwig.operations.deployment.ledgers import LedgerLocation, LedgerOwner
    from hedwig.pipeline.audit.audit import AuditInput, audit
    from hedwig.pipeline.audit.audit_page import audit_html
    from hedwig.pipeline.audit.existing_ledgers import check_ledgers, list_ledgers, why_no_orphans
    from hedwig.pipeline.audit.incarnations import hubs_frame, named_hub
    from hedwig.pipeline.audit.index_entries import index_state_of, unindexed_subscriptions
    from hedwig.pipeline.audit.open_ledgers import ask_open_ledgers
    from hedwig.pipeline.audit.page import check_libraries
    from hedwig.pipeline.frames.folder import Folder
    from hedwig.pipeline.frames.tables import Table
    from hedwig.pipeline.snapshots.preflight import check_readable, check_source, is_store
    from hedwig.pipeline.snapshots.snapshot import SNAPSHOT_TABLES, read_snapshot
    from hedwig.pipeline.snapshots.store_snapshot import take_snapshot
    from hedwig.pipeline.source.shared_stores import session_url, stores_file
    from hedwig.pipeline.source.store_tables import read_unreadable

    if data and bookkeeper:
        raise click.UsageError("give either --data or --bookkeeper")
    # SOURCE may be a folder, which is no URL: then nothing opens the store of the deployment.
    deployment = Deployment(
        command="audit",
        timeout_s=timeout_s,
        metadata=source,
        cluster=cluster,
        data=data,
        bookkeeper=bookkeeper,
        stores_file=stores_file(),
    )
    hubs = [named_hub(text) for text in named]
    check_libraries()
    check_source(source, job.settings)
    scan = scan.within(timeout_s)
    if is_store(source):
        check_readable(source, timeout_s)
    if cluster is not None:
        read_registered_cluster(deployment)  # Report a mistyped name at once. `_living` asks which hubs are alive.
    location, owner = LedgerLocation.given(deployment), LedgerOwner(deployment.cluster)
    if location is not None:
        location = replace(location, metadata=without_making(source) if is_store(source) else None)
        check_ledgers(location)
    with job.session() as spark:
        if location is not None and location.metadata is not None:
            location = replace(location, metadata=session_url(spark, location.metadata))
        folder = Folder(spark, directory)
        folder.check_empty()
        with folder.deleted_on_failure():
            path = source
            existed = None
            if location is not None and not location.is_shared and is_store(source):
                # A ledger that is made after this listing may be missing from the records, and is no orphan.
                with job.progress(spark, "listing ledgers"):
                    existed = list_ledgers(spark, location, owner, f"{directory}/existing/before.parquet")
            if is_store(source):
                path = f"{directory}/snapshot"
                take_snapshot(job, spark, session_url(spark, source), SNAPSHOT_TABLES, path, scan, "reading")
            snapshot = read_snapshot(spark, path)
            job.warn(snapshot.manifest.warning)
            unreadable = None
            if path != source and snapshot.manifest.unreadable:
                with job.progress(spark, "naming what cannot be read"):
                    kept, broken = f"{directory}/unreadable", snapshot.manifest.unreadable
                    url = without_making(snapshot.manifest.source)
                    read_unreadable(spark, url, broken, scan.options).write.parquet(kept)
                    unreadable = spark.read.parquet(kept)
            if path == source:
                with job.progress(spark, "checking the snapshot"):
                    snapshot.verify()
            unindexed = None
            if is_store(source) and index_state_of(source, timeout_s) is IndexState.WHOLE:
                with job.progress(spark, "looking into the index of subscribers"):
                    lacking, url = f"{directory}/unindexed", session_url(spark, source)
                    found = unindexed_subscriptions(snapshot.frames[Table.SUBSCRIPTIONS], url, timeout_s)
                    found.write.parquet(lacking)
                    unindexed = spark.read.parquet(lacking)
            # Ask after the records were read: every hub in an owner record started before that.
            living = _living(deployment, hubs, has_store=is_store(source))
            exist = ends = None
            if location is not None:
                with job.progress(spark, "listing ledgers"):
                    exist = list_ledgers(spark, location, owner, f"{directory}/existing/after.parquet")
                with job.progress(spark, "asking open ledgers"):
                    ends = ask_open_ledgers(spark, snapshot.frames[Table.LEDGERS], location, f"{directory}/ends")
            prefix = bytes.fromhex(snapshot.manifest.prefix)
            given = AuditInput(
                frames=snapshot.frames,
                read_ms=int(datetime.fromisoformat(snapshot.manifest.began).timestamp() * 1000),
                living=None if living is None else hubs_frame(spark, living),
                existing=None if exist is None else exist.frame,
                existed=None if existed is None else existed.frame,
                why_no_orphans=None
                if location is None or exist is None
                else why_no_orphans(location, owner, exist, is_from_store=existed is not None),
                ends=ends,
                unread=snapshot.manifest.unreadable,
                unreadable=unreadable,
                unindexed=unindexed,
                prefix=prefix,
            )
            with job.progress(spark, "auditing"):
                figures = audit(spark, given, directory, top)
            facts = [
                ("source", source),
                ("topics that begin with", show_name(prefix) if prefix else "anything"),
                ("read", f"{snapshot.manifest.began} to {snapshot.manifest.ended}"),
                ("hubs alive", "not asked" if living is None else ", ".join(_hub(hub) for hub in living) or "none"),
            ]
            folder.write_text("audit.html", audit_html(figures, facts))
            result = {
                "source": source,
                "prefix": show_name(prefix) or None,
                "audit": directory,
                "page": f"{directory}/audit.html",
                "rows": figures.rows,
                "findings": figures.findings,
                "unchecked": figures.unchecked,
                "open_ledgers": {
                    "open": figures.open_topics,
                    "told": figures.answered_topics,
                    "untold": figures.unanswered,
                },
                "skew": figures.skew,
                "hubs": figures.hubs,
                "fan_outs": figures.fan_outs,
                "backlogs": figures.backlogs,
                "lags": figures.lags,
                **snapshot.manifest.losses,
            }
            folder.write_text("audit.json", json.dumps(result, ensure_ascii=False, indent=2) + "\n")
    job.write(result)


def _living(deployment: "Deployment", named: "Sequence[HubInfo]", *, has_store: bool) -> "list[HubInfo] | None":
    """Return the hubs that are alive, including those that `--hub` names; None if nothing says which are alive."""
    from hedwig.operations.deployment.living_hubs import living_incarnations

    if deployment.cluster is None and (named or not has_store):
        return list(named) or None
    found = living_incarnations(deployment)
    return None if found is None else [*named, *found]


def _hub(hub: "HubInfo") -> str:
    return f"{hub.address} epoch {hub.epoch}"
