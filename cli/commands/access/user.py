"""The commands `hedwig-admin access user …`: users that log in with passwords."""

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from hedwig.access.principals import check_principal_name
from hedwig.access.users import VERIFIERS_MAX, User, Verifier
from hedwig.cli.arguments.confirmation import confirm
from hedwig.cli.arguments.input_file import InputFile
from hedwig.cli.arguments.names import CheckedName
from hedwig.cli.arguments.selection import NAME, Selection, cut, list_options
from hedwig.cli.output.formats import Row
from hedwig.cli.program import AdminGroup
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.errors import InvalidArgumentError, OperationError
from hedwig.exit_codes import ExitCode
from hedwig.extras import needed
from hedwig.metadata import MetadataStore
from hedwig.metadata.access.records import Kept
from hedwig.metadata.access.user_records import UserRecords
from hedwig.operations.deployment.store import with_store, with_store_to_write

__all__ = ["user"]

_COLUMNS: Final = ("user", "groups", "passwords", "older_until", "version")
_HOUR_S: Final = 3600.0


def _checked(text: str) -> str:
    name = text.removeprefix("user:")
    check_principal_name(name)
    return name


def _group(text: str) -> str:
    check_principal_name(text)
    return text


_USER: Final = CheckedName("user", _checked)
_GROUP: Final = CheckedName("group", _group)


@click.group(cls=AdminGroup, example="hedwig-admin access user list")
def user() -> None:
    """Show and change the users that log in with passwords, where hubs are told to let them (access.mechanisms).

    Only what checks a password is stored. Nobody can read the password from that.
    """


def _password_option(command: Any) -> Any:
    return click.option(
        "--password-file",
        type=InputFile(path_type=Path, allow_dash=True),
        metavar="FILE",
        help="Read the password from the first line of FILE, or of standard input if FILE is -. Else you are asked.",
    )(command)


@user.command("add", example="hedwig-admin access user add ann --group shop --password-file ann.txt")
@click.argument("name", type=_USER)
@click.option("--group", "groups", type=_GROUP, multiple=True, help="A group of the user; may be given again.")
@_password_option
@pass_settings
def add(settings: Settings, name: str, groups: tuple[str, ...], password_file: Path | None) -> None:
    """Add a user, who has not been there."""
    made = User(frozenset(groups), (_verifier(settings, _password(password_file), None),))

    def added(present: User) -> User:
        if present.verifiers:
            raise OperationError(
                f"there is a user {name} already; hedwig-admin access user rotate {name} changes its password",
                ExitCode.VERSION_CONFLICT,
            )
        return made

    _change(settings, name, added, "added")


@user.command("rotate", example="hedwig-admin access user rotate ann --password-file ann.txt")
@click.argument("name", type=_USER)
@click.option(
    "--keep-hours",
    type=click.FloatRange(0, 24 * 366),
    default=24.0,
    show_default=True,
    help="For how long the password before still counts.",
)
@_password_option
@pass_settings
def rotate(settings: Settings, name: str, keep_hours: float, password_file: Path | None) -> None:
    """Give a user another password. The one before counts for a while, so that no program is shut out meanwhile."""
    password = _password(password_file)

    def rotated(present: User) -> User:
        _check_present(name, present)
        if not keep_hours:
            return replace(present, verifiers=(_verifier(settings, password, None),))
        newest = present.verifiers[0]
        older = replace(newest, until=time.time() + keep_hours * _HOUR_S)
        return replace(present, verifiers=(_verifier(settings, password, newest), older)[:VERIFIERS_MAX])

    _change(settings, name, rotated, "rotated")


@user.command("set", example="hedwig-admin access user set ann --group shop --group billing")
@click.argument("name", type=_USER)
@click.option("--group", "groups", type=_GROUP, multiple=True, help="A group of the user; may be given again.")
@click.option("--no-groups", is_flag=True, help="The user is in no group.")
@pass_settings
def set_groups(settings: Settings, name: str, groups: tuple[str, ...], no_groups: bool) -> None:
    """Set the groups of a user, in place of those before."""
    if bool(groups) == no_groups:
        raise click.UsageError("give --group once or more, or --no-groups")

    def changed(present: User) -> User:
        _check_present(name, present)
        return replace(present, groups=frozenset(groups))

    _change(settings, name, changed, "set")


@user.command("delete", example="hedwig-admin access user delete ann --yes --if-exists")
@click.argument("name", type=_USER)
@click.option("--if-exists", is_flag=True, help="Do not fail if there is no such user.")
@click.option("--dry-run", is_flag=True, help="Say what would be deleted, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_settings
def delete(settings: Settings, name: str, if_exists: bool, dry_run: bool, yes: bool) -> None:
    """Delete a user. Hubs close its connections within seconds. The rules for it stay."""

    async def look(store: MetadataStore) -> Kept[User]:
        return await UserRecords(store.named_records).read_of(f"user:{name}")

    found = with_store(settings.deployment, look)
    if not found.value.verifiers and not if_exists:
        _check_present(name, found.value)
    if found.value.verifiers and not dry_run and not yes:
        confirm(f"This deletes the user {name}")
    result = "would delete" if dry_run else "deleted"
    if dry_run or not found.value.verifiers:
        settings.writer().record({**_fields(name, found), "result": result if found.value.verifiers else "absent"})
        return
    _change(settings, name, lambda _: User(), result)


@user.command("list", example="hedwig-admin access user list")
@list_options(NAME)
@pass_settings
def list_users(settings: Settings, /, selection: Selection) -> None:
    """List the users that log in with passwords, and until when an older password counts beside the newest."""
    output = settings.writer()

    async def read(store: MetadataStore) -> None:
        kept = await UserRecords(store.named_records).read()
        rows = [_fields(who.removeprefix("user:"), each) for who, each in kept.items() if each.value.verifiers]
        output.begin("users", _COLUMNS, _COLUMNS)
        selected, token = cut(selection, "users", rows, lambda row: str(row["user"]).encode())
        output.page(selected)
        output.end(token)

    with_store(settings.deployment, read)


def _change(settings: Settings, name: str, function: Any, result: str) -> None:
    output = settings.writer()

    async def change(store: MetadataStore) -> None:
        records = UserRecords(store.named_records)
        await records.make_pepper()
        kept = await records.change(f"user:{name}", function)
        output.record({**_fields(name, kept), "result": result})

    with_store_to_write(settings.deployment, change)


def _check_present(name: str, found: User) -> None:
    if not found.verifiers:
        raise OperationError(
            f"there is no user {name}; hedwig-admin access user list shows those that there are", ExitCode.NOT_FOUND
        )


def _password(file: Path | None) -> str:
    """Return the password that the user gives. Raises: OperationError."""
    if file is None:
        if not sys.stdin.isatty():
            raise OperationError(
                "there is nobody to ask for the password; give --password-file FILE, or - for standard input",
                ExitCode.USAGE,
            )
        asked: str = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        return asked
    try:
        with click.open_file(str(file), encoding="utf-8") as opened:
            return str(opened.readline()).rstrip("\r\n")
    except UnicodeDecodeError as exc:
        raise OperationError(f"the password in {file} is no text in UTF-8", ExitCode.USAGE) from exc


def _verifier(settings: Settings, password: str, beside: Verifier | None) -> Verifier:
    with needed("access", f"{settings.command} needs"):
        from hedwig.access.scram import make_verifier
    try:
        return make_verifier(password, beside)
    except InvalidArgumentError as exc:
        raise OperationError(f"{settings.command}: {exc}", ExitCode.USAGE) from exc


def _fields(name: str, kept: Kept[User]) -> Row:
    until = [each.until for each in kept.value.verifiers if each.until is not None and each.until > time.time()]
    newest = sum(each.until is None for each in kept.value.verifiers)
    return {
        "user": name,
        "groups": sorted(kept.value.groups),
        "passwords": newest + len(until),
        "older_until": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(until[0])) if until else None,
        "version": kept.version,
    }
