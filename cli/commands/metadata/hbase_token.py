"""The command `hedwig-admin metadata hbase-token`: a token by which programs log in to HBase without Kerberos."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.errors import OperationError
from hedwig.metadata import MetadataUrl
from hedwig.private_files import write_private
from hedwig.reasons import reason_of

if TYPE_CHECKING:
    from hedwig.metadata.hbase.native.wire.tokens import Token

__all__ = ["make_hbase_token"]


@click.command("hbase-token", cls=AdminCommand, example="hedwig-admin metadata hbase-token hbase.token --replace")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--replace", is_flag=True, help="Write over an existing file.")
@pass_settings
def make_hbase_token(settings: Settings, file: Path, replace: bool) -> None:
    """Ask HBase for a token, as the user who logs in by Kerberos, and write it to FILE.

    Programs whose stores file names FILE log in by it, as that user, without keytab and tickets: so do the executors of
    Spark. HBase takes a token for a week unless it is configured otherwise. Only the owner of FILE can read it.
    """
    output = settings.writer()
    url = MetadataUrl.parse(settings.deployment.url)
    if url.scheme != "hbase":
        raise OperationError(f"{settings.command}: {url.text} gives no tokens; only hbase:// does")
    if not replace and file.exists():
        raise OperationError(f"{settings.command}: {file} exists already; write over it with --replace")
    token = asyncio.run(_new_token(settings, url))
    try:
        was_written = write_private(file, token.text, replaces=replace)
    except OSError as exc:
        raise OperationError(f"{settings.command}: cannot write {file}: {reason_of(exc)}") from exc
    if not was_written:
        raise OperationError(f"{settings.command}: {file} exists already; write over it with --replace")
    output.record({"file": str(file), "result": "created"})


async def _new_token(settings: Settings, url: MetadataUrl) -> "Token":
    from hedwig.metadata.hbase.native import connect  # Every command loads this module.

    driver = await connect(url, settings.deployment.store_options())
    try:
        return await driver.new_token()
    finally:
        await driver.close()
