"""The job `bench-report`: figures of many benchmark results beside each other."""

import click

from hedwig.pipeline.command import Job, JobCommand, pass_job
from hedwig.pipeline.jobs.options import folder_name

__all__ = ["command"]


@click.command(
    "bench-report", cls=JobCommand, example="hedwig-pipeline bench-report ./report benchmarks/results/*.json"
)
@click.argument("directory", callback=folder_name)
@click.argument("files", nargs=-1, required=True)
@pass_job
def command(job: Job, directory: str, files: tuple[str, ...]) -> None:
    """Put the figures of hedwig-bench result FILES side by side in DIRECTORY, over the runs that measured them.

    Parquet of all measurements and of their rounds taken together, and report.html with plots. FILES may be patterns
    and folders that Spark can read. hedwig-bench report makes the full report of a run.
    """
    from hedwig.pipeline.audit.bench_page import bench_html
    from hedwig.pipeline.audit.bench_results import measurements, medians
    from hedwig.pipeline.audit.page import check_libraries
    from hedwig.pipeline.errors import JobError
    from hedwig.pipeline.frames.folder import Folder

    check_libraries("hdrh")
    with job.session() as spark:
        folder = Folder(spark, directory)
        folder.check_empty()
        with folder.deleted_on_failure(), job.progress(spark, "reading"):
            measurements(spark, files).write.parquet(f"{directory}/measurements")
            kept = spark.read.parquet(f"{directory}/measurements")
            medians(kept).write.parquet(f"{directory}/medians")
            rows = [row.asDict() for row in spark.read.parquet(f"{directory}/medians").collect()]
            if not rows:
                raise JobError(f"there is no measurement in {', '.join(files)}: name result files of hedwig-bench")
            folder.write_text("report.html", bench_html(rows))
            runs = kept.select("file").distinct().count()
            measured = kept.count()
    job.write({"report": f"{directory}/report.html", "files": runs, "measurements": measured, "figures": len(rows)})
