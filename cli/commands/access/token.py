"""The command `hedwig-admin access token`: a file with the token of admin endpoints."""

from pathlib import Path

import click

from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.errors import OperationError
from hedwig.exit_codes import ExitCode
from hedwig.private_files import make_token
from hedwig.reasons import reason_of

__all__ = ["token"]


@click.command("token", cls=AdminCommand, example="hedwig-admin access token admin-token")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--if-missing", is_flag=True, help="Do not fail if there is such a file, and leave it as it is.")
@click.option("--replace", is_flag=True, help="Replace the token; hubs take the new one from then on, and no other.")
@pass_settings
def token(settings: Settings, file: Path, if_missing: bool, replace: bool) -> None:
    """Write a new token at random to FILE, which only you can read.

    Hubs whose option admin_token_file names the file let whoever shows the token do everything at their admin
    endpoints. Commands find it by --admin-token-file. The token is not shown.
    """
    if if_missing and replace:
        raise click.UsageError("give --if-missing or --replace, not both")
    output = settings.writer()
    try:
        is_made = make_token(file, replaces=replace)
    except OSError as exc:
        raise OperationError(f"{settings.command}: cannot write {file}: {reason_of(exc)}") from exc
    if not is_made and not if_missing:
        raise OperationError(
            f"{settings.command}: {file} exists; --replace writes another token", ExitCode.VERSION_CONFLICT
        )
    output.record({"file": str(file), "result": "created" if is_made else "unchanged"})
