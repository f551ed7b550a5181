"""The options that name hubs, clusters and ledgers. Their values go into the Settings."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import click

from hedwig.cli.arguments.input_file import InputFile
from hedwig.cli.settings.configuration import SETTINGS
from hedwig.cli.settings.hub_names import complete_hub
from hedwig.cli.settings.settings import kept_setting

__all__ = [
    "admin_setting_options",
    "bookkeeper_setting_option",
    "cluster_setting_options",
    "hub_setting_options",
    "ledger_setting_options",
    "owner_setting_options",
    "token_setting_options",
]

_Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]


def hub_setting_options() -> Sequence[_Decorator]:
    """Return the options that say which hub to ask, and how."""
    return (
        click.option(
            "--hub",
            metavar="HOST:PORT[:TLSPORT]",
            help=f"The hub to ask; any will do.  [env: HEDWIG_HUB; default: {SETTINGS['hub'].default}]",
            shell_complete=complete_hub,
            **kept_setting("hub"),
        ),
        *_trust_options(),
    )


def token_setting_options() -> Sequence[_Decorator]:
    """Return the options that say what to show at admin endpoints only."""
    return (
        click.option(
            "--admin-token-file",
            metavar="FILE",
            type=InputFile(),
            help="The file with the token that admin endpoints ask for.  [env: HEDWIG_ADMIN_TOKEN_FILE; default, for "
            "a hub of this machine: admin-token in --data]",
            **kept_setting("admin_token_file"),
        ),
        click.option(
            "--plain-token",
            is_flag=True,
            default=None,
            help="Send it to other machines without TLS, too, for networks where nobody else reads."
            "  [env: HEDWIG_PLAIN_TOKEN]",
            **kept_setting("plain_token"),
        ),
    )


def admin_setting_options() -> Sequence[_Decorator]:
    """Return the options that say what to show at admin endpoints, and which of them to trust."""
    return (*token_setting_options(), *_trust_options())


def _trust_options() -> Sequence[_Decorator]:
    """Return the options that say which hubs to trust, and what to show them."""
    return (
        click.option(
            "--tls/--no-tls",
            default=None,
            help="Whether to speak TLS; hubs need a certificate of the system's authorities for their host name."
            "  [env: HEDWIG_TLS]",
            **kept_setting("tls"),
        ),
        click.option(
            "--tls-ca",
            metavar="FILE",
            type=InputFile(),
            help="Speak TLS; hubs need a certificate of an authority in this PEM file.  [env: HEDWIG_TLS_CA]",
            **kept_setting("tls_ca"),
        ),
        click.option(
            "--tls-insecure",
            is_flag=True,
            default=None,
            help="Speak TLS with any hub, without a check of its certificate.  [env: HEDWIG_TLS_INSECURE]",
            **kept_setting("tls_insecure"),
        ),
        click.option(
            "--tls-certificate",
            metavar="FILE",
            type=InputFile(),
            help="PEM file with a certificate and its key, to show over TLS.  [env: HEDWIG_TLS_CERTIFICATE]",
            **kept_setting("tls_certificate"),
        ),
        click.option(
            "--user",
            metavar="NAME",
            help="The user to log in as, with the password in --password-file.  [env: HEDWIG_USER]",
            **kept_setting("user"),
        ),
        click.option(
            "--password-file",
            metavar="FILE",
            type=InputFile(),
            help="The file whose first line is the password.  [env: HEDWIG_PASSWORD_FILE]",
            **kept_setting("password_file"),
        ),
    )


def cluster_setting_options() -> Sequence[_Decorator]:
    """Return the options that say where the hubs of a cluster are registered."""
    return (
        click.option(
            "--cluster",
            metavar="URL",
            help="Where the hubs are registered, their option cluster.zookeeper: zookeeper://host:port/hedwig/REGION."
            "  [env: HEDWIG_CLUSTER; default: the metadata store, if it is a ZooKeeper]",
            **kept_setting("cluster"),
        ),
    )


def owner_setting_options(whose: str = "the topic's owner") -> Sequence[_Decorator]:
    """Return the option that names the admin endpoint of a topic's owner, or of the hub that `whose` describes."""
    return (
        click.option(
            "--admin",
            metavar="[https://]HOST:PORT",
            help=f"Reach the admin endpoint of {whose} at this address, not at the one that it announces."
            "  [env: HEDWIG_ADMIN; default, of a standalone hub: its host, port 4081]",
            **kept_setting("admin"),
        ),
    )


def ledger_setting_options() -> Sequence[_Decorator]:
    """Return the options that say where ledgers are."""
    return (
        click.option(
            "--data",
            metavar="DIR",
            # The command line accepts an unreadable directory. Commands report it with their own exit codes.
            type=click.Path(exists=True, file_okay=False, readable=False),
            help="The data directory of the standalone hub, which may run.  [env: HEDWIG_DATA; default: the user's]",
            **kept_setting("data"),
        ),
        bookkeeper_setting_option(),
    )


def bookkeeper_setting_option() -> _Decorator:
    """Return the option that says where the bookies of a cluster are."""
    return click.option(
        "--bookkeeper",
        metavar="URL",
        help="Where the bookies of a cluster are registered, its option bookkeeper.zookeeper: "
        "zookeeper://host:port/ledgers.  [env: HEDWIG_BOOKKEEPER; default: the cluster's ZooKeeper, /ledgers]",
        **kept_setting("bookkeeper"),
    )
