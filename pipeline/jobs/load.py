"""The job `load`: topics and subscriptions from files into a store."""

import click

from pipeline.command import Job, JobCommand, pass_job
from pipeline.jobs.options import WriteWish, write_options

__all__ = ["command"]


@click.command(
    "load",
    cls=JobCommand,
    example="hedwig-pipeline load sqlite:///./hedwig.db --topics topics.tsv.gz --subscriptions subscriptions.tsv.gz",
)
@click.argument("url")
@click.option(
    "--from", "directory", metavar="DIR", help="Folders of Parquet files named by their table, as generate makes."
)
@click.option("--topics", metavar="FILE", help="Lines that begin with a topic; what follows a tab is passed over.")
@click.option("--subscriptions", metavar="FILE", help="Lines of a topic, a tab and a subscriber.")
@click.option("--with-owners", is_flag=True, help="Owners too, if DIR has them.")
@write_options
@pass_job
def command(
    job: Job,
    url: str,
    directory: str | None,
    topics: str | None,
    subscriptions: str | None,
    with_owners: bool,
    write: WriteWish,
) -> None:
    """Load topics and subscriptions into the store at URL, which must be formatted.

    FILE may be compressed, a folder, or a pattern; names stand in it as they are, byte for byte. Topics that
    subscriptions need and that do not exist are made. The same load may be run again.
    """
    from pipeline.copying import write_tables
    from pipeline.name_files import subscriptions_of, topics_needed, topics_of
    from pipeline.reaching import check_reachable
    from pipeline.store_tables import read_tables_of
    from pipeline.tables import Table

    if directory is not None and (topics or subscriptions):
        raise click.UsageError("give either --from, or --topics and --subscriptions")
    if directory is None and not (topics or subscriptions):
        raise click.UsageError("give --from DIR, or --topics FILE, --subscriptions FILE or both")
    check_reachable(url)
    with job.session() as spark:
        if directory is not None:
            frames = read_tables_of(spark, directory)
            if not with_owners:
                frames.pop(Table.OWNERS, None)
        else:
            frames = {}
            named = topics_of(spark, topics) if topics else None
            pairs = subscriptions_of(spark, subscriptions) if subscriptions else None
            frames[Table.TOPICS] = topics_needed(named, pairs)
            if pairs is not None:
                frames[Table.SUBSCRIPTIONS] = pairs
        written = write_tables(job, spark, frames, url, write)
    job.write({"store": url, **written.figures()})
    written.check()
