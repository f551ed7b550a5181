"""Every command of hedwig-admin, and a store in which the self-contained examples run."""

import shlex
from collections.abc import Iterator, Sequence
from typing import Final

import click

from hedwig.cli.main import main
from tests.cli.support.admin import Admin

__all__ = ["EVERY_COMMAND", "ON_THE_STORE", "SERVED_BY_HUBS", "STARTS_SERVERS", "example_of", "leaves", "prepare"]

Path = tuple[str, ...]


def _commands(command: click.Command, *path: str) -> Iterator[tuple[Path, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from _commands(below, *path, name)


EVERY_COMMAND: Final = dict(_commands(main))

STARTS_SERVERS: Final = ("dev",)
SERVED_BY_HUBS: Final = ("publish", "subscribe", "consume", "unsubscribe", "hub", "top")
"""Their examples run in test_hub_commands, which has a hub, in test_hubs_of_a_cluster, and in test_top."""
_SERVED_BY_A_CLUSTER: Final = {("topic", "move"), ("ledger", "delete-orphans")}
"""Their examples run in test_topics_of_a_cluster, and in test_check_of_ledgers."""
_SERVED_BY_A_HUB: Final = {("access", "status")}
"""Its example runs in test_admin_access, which has a hub."""
_SERVED_BY_KERBEROS: Final = {("metadata", "hbase-token")}
"""Its example runs in test_kerberos, which has such an HBase."""
_JUDGES_THE_MACHINE: Final = {("check", "perf")}
"""Its exit code says how fast the disk is; its example runs in test_checks."""

ON_THE_STORE: Final = {
    path: command
    for path, command in EVERY_COMMAND.items()
    if path[:1] not in {(n,) for n in SERVED_BY_HUBS + STARTS_SERVERS}
    and path not in _SERVED_BY_A_CLUSTER | _SERVED_BY_A_HUB | _SERVED_BY_KERBEROS | _JUDGES_THE_MACHINE
}


def leaves(commands: dict[Path, click.Command]) -> list[Path]:
    """Return the commands that are no groups."""
    return [path for path, command in commands.items() if not isinstance(command, click.Group)]


def example_of(path: Path) -> Sequence[str]:
    """Return the arguments of the example with which the help of a command ends."""
    return shlex.split((EVERY_COMMAND[path].epilog or "").removeprefix("Example: hedwig-admin "))


def prepare(admin: Admin, path: Path) -> None:
    """Fill an empty store with what the example of a command needs."""
    admin.done("subscription", "create", "news", "reader")
    admin.done("topic", "create", "admin/0install")
    (admin.directory / "topics.tsv").write_text("weather\t1\nsport\t2\n")
    if path == ("access", "export"):
        admin.done("access", "allow", "group:shop", "publish", "orders/*")
    if path[:2] == ("access", "user"):
        (admin.directory / "ann.txt").write_text("correct horse\n")
    if path in (("access", "user", "rotate"), ("access", "user", "set")):
        admin.done("access", "user", "add", "ann", "--password-file", "ann.txt")
    if path == ("access", "import"):
        (admin.directory / "rules.txt").write_text("allow group:shop publish orders/*\n")
    if path[:1] == ("config",):
        admin.done("config", "context", "save", "staging", "--hub", "127.0.0.1:4080", "--use")
    if path == ("metadata", "import"):
        admin.done("metadata", "export", str(admin.directory / "hedwig.metadata.gz"))
    if path == ("metadata", "migrate"):
        admin.done("topic", "create", "news", "--metadata", "sqlite:///./hedwig.db")
    if path == ("topic", "delete"):
        admin.done("topic", "delete", "news", "--force", "--yes")
