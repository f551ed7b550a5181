"""The job `generate`: make a snapshot of generated metadata, which no store ever held."""

import click

from hedwig.pipeline.command import Job, JobCommand, pass_job
from hedwig.pipeline.jobs.options import folder_name

__all__ = ["command"]


@click.command(
    "generate",
    cls=JobCommand,
    example="hedwig-pipeline generate ./generated --topics 10_000 --subscriptions 20_000",
)
@click.argument("directory", callback=folder_name)
@click.option("--topics", type=click.IntRange(1, 3_000_000_000), default=10_000, show_default=True, help="How many.")
@click.option("--subscriptions", type=click.IntRange(0), default=20_000, show_default=True, help="How many.")
@click.option(
    "--seed",
    type=click.IntRange(-(1 << 63), (1 << 63) - 1),
    default=1,
    show_default=True,
    help="The same seed makes the same rows, another seed makes others.",
)
@click.option(
    "--zipf",
    type=click.FloatRange(0, 2),
    default=0.9,
    show_default=True,
    help="How unequal topics are: 0 all alike, 1 as words of a text.",
)
@click.option(
    "--with-history",
    is_flag=True,
    help="Ledger ranges, owners and consume pointers as after years of use. The ledgers do not exist: not for hubs.",
)
@click.option(
    "--hubs",
    type=click.IntRange(1),
    default=4,
    show_default=True,
    help="How many hubs own topics, with --with-history.",
)
@click.option("--partitions", type=click.IntRange(1), help="How many tasks make each table; the rows stay the same.")
@pass_job
def command(
    job: Job,
    directory: str,
    topics: int,
    subscriptions: int,
    seed: int,
    zipf: float,
    with_history: bool,
    hubs: int,
    partitions: int | None,
) -> None:
    """Generate topics and subscriptions as a snapshot in DIRECTORY, for load.

    Names have the shapes that names have in practice, some are no text, and few topics have most subscriptions. Each
    row depends on the seed and on its number alone.
    """
    from hedwig.pipeline.generate.generate import Recipe, generate
    from hedwig.pipeline.snapshots.snapshot import write_snapshot

    try:
        recipe = Recipe(
            topics=topics, subscriptions=subscriptions, seed=seed, exponent=zipf, with_history=with_history, hubs=hubs
        )
    except ValueError as exc:
        raise click.UsageError(str(exc)) from exc
    with job.session() as spark, job.progress(spark, "rows", copies=True):
        frames = {table: generate(spark, recipe, table, partitions=partitions) for table in recipe.tables}
        source = f"generated: seed {seed}, zipf {zipf:g}{', with history' if with_history else ''}"
        manifest = write_snapshot(spark, frames, directory, source=source)
    job.write({"snapshot": directory, **manifest.figures(job.seconds)})
