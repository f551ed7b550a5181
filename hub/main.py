"""The command hedwig-hub."""

import io
import logging
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from signal import SIGINT
from typing import Any, Final, NoReturn

import click

from hedwig.errors import (
    ConfigurationError,
    HedwigError,
    MetadataUnavailableError,
    ServiceDownError,
    UncertainStateError,
)
from hedwig.exit_codes import ExitCode
from hedwig.hub.connections.tls.settings import check_tls
from hedwig.hub.first_steps import DATA_ORIGIN, first_steps
from hedwig.hub.hub import Hub
from hedwig.hub.log_lines import CountingHandler
from hedwig.hub.options.configuration import (
    Configuration,
    Given,
    from_defaults,
    from_environment,
    from_file,
    from_setting,
)
from hedwig.hub.options.file import effective
from hedwig.hub.process import run_hub
from hedwig.hub.subscriptions.filters import FilterRegistry
from hedwig.metadata import MetadataUrl
from hedwig.private_files import user_data_directory
from hedwig.store_access import StoreAccess

__all__ = ["main"]

_CONFIG_VARIABLE: Final = "HEDWIG_HUB_CONFIG"
_LEVEL_VARIABLE: Final = "HEDWIG_HUB_LOG_LEVEL"
_LEVELS: Final = ("debug", "info", "warning", "error")
_FLAGS: Final = {
    "data": ("--data", "data_directory"),
    "host": ("--host", "host"),
    "port": ("--port", "port"),
    "admin_port": ("--admin-port", "admin_port"),
    "metadata": ("--metadata", "metadata"),
}
"""From the parameter to its flag and the key of its option."""


@click.command(epilog="Example: hedwig-hub --data hedwig-data --set topic_idle_s='10 min'")
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar=_CONFIG_VARIABLE,
    show_envvar=True,
    help="A TOML file with options; python -m hedwig.hub.options.file writes one to begin with.",
)
@click.option("--data", metavar="DIR", help="The data directory.")
@click.option("--host", metavar="ADDRESS", help="The address to listen on.")
@click.option("--port", metavar="PORT", help="The port to listen on; 0: any free one.")
@click.option("--admin-port", metavar="PORT", help="The port of the admin endpoint; 0: any free one; -1: none.")
@click.option("--metadata", metavar="URL", help="The metadata store.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Any option of the hub; may be repeated.")
@click.option("--replace-standalone", is_flag=True, help="Take the metadata over from another standalone hub.")
@click.option("--check-config", is_flag=True, help="Check the options, print each with its origin, and end.")
@click.option(
    "--log-level",
    type=click.Choice(_LEVELS, case_sensitive=False),
    default="info",
    envvar=_LEVEL_VARIABLE,
    show_envvar=True,
    show_default=True,
    help="What to log, to standard error.",
)
@click.option(
    "--first-steps", "is_first", is_flag=True, help="Keep the data where hedwig-admin looks, and print what to try."
)
def _hedwig_hub(
    config: Path | None,
    settings: tuple[str, ...],
    replace_standalone: bool,
    check_config: bool,
    log_level: str,
    is_first: bool,
    **flags: str | None,
) -> int:
    """Serve publishers and subscribers until SIGTERM or Ctrl-C.

    Options come from flags, then from variables HEDWIG_HUB_<OPTION>, then from the file, then from the defaults.
    """
    configuration = Configuration.combine(
        from_defaults({"data_directory": user_data_directory()}, DATA_ORIGIN) if is_first else (),
        from_file(config) if config is not None else (),
        from_environment(others=(_CONFIG_VARIABLE, _LEVEL_VARIABLE)),
        _from_flags(flags, settings),
    )
    if check_config:
        _check(configuration)
        click.echo(effective(configuration), nl=False)
        return ExitCode.DONE
    lines = CountingHandler(logging.StreamHandler())
    logging.basicConfig(
        level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s", handlers=[lines]
    )

    def ready(hub: Hub) -> None:
        click.echo(_serving(hub))
        if is_first:
            click.echo(first_steps(f"{hub.options.host}:{hub.port}", hub.options.data_directory))
        sys.stdout.flush()

    try:
        number = run_hub(configuration, ready, replace_standalone=replace_standalone)
    finally:
        lines.flush()  # So that the reason for the end is the last line.
    return ExitCode.INTERRUPTED if number is SIGINT else ExitCode.DONE


def _from_flags(flags: Mapping[str, str | None], settings: Iterable[str]) -> list[Given]:
    values = []
    for name, text in flags.items():
        flag, key = _FLAGS[name]
        if text is not None:
            values.append(from_setting(f"{key}={text}", f"flag {flag}"))
    flagged = {given.key: given.origin for given in values}
    for setting in settings:
        given = from_setting(setting, "flag --set")
        if given.key in flagged:
            raise ConfigurationError(f"{given.key} is given by {flagged[given.key]} and by --set; leave one out")
        values.append(given)
    return values


def _check(configuration: Configuration) -> None:
    """Check what only the start of a hub would check, as far as that is possible without starting one."""
    options = configuration.options
    FilterRegistry(options.filters)
    check_tls(options)
    StoreAccess.read(options.stores_file)
    MetadataUrl.parse(options.metadata_url)


def _serving(hub: Hub) -> str:
    """Return the line that says that the hub serves; programs wait for it."""
    options = hub.options
    parts = [f"serving {options.host}:{hub.port}"]
    if hub.admin_port is not None:
        scheme = "https://" if options.has_admin_tls else ""
        parts.append(f"admin {scheme}{options.admin_host}:{hub.admin_port}")
    if hub.tls_port is not None:
        parts.append(f"TLS {options.host}:{hub.tls_port}")
    parts += [f"{name} {address.rpartition(':')[0]}" for name, address in hub.listeners.addresses.items()]
    parts.append(
        f"cluster {options.cluster.zookeeper}" if options.is_clustered else f"data {options.data_directory.resolve()}"
    )
    return f"hedwig-hub: {', '.join(parts)}"


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command, and exit with its code. A bug keeps its traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # A path may have characters that the terminal's encoding lacks.
            stream.reconfigure(errors="backslashreplace")
    sys.exit(_exit_code(arguments))


def _exit_code(arguments: Sequence[str] | None) -> int:
    try:
        result: Any = _hedwig_hub.main(arguments, prog_name="hedwig-hub", standalone_mode=False)
    except click.ClickException as exc:
        _say(f"{exc.format_message()}; see: hedwig-hub --help")
        return ExitCode.USAGE
    except (click.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    except HedwigError as exc:
        _say(str(exc))
        return _code_of(exc)
    # With standalone_mode off, click returns the code of --help as if the command had returned it.
    return int(result or ExitCode.DONE)


def _say(text: str) -> None:
    click.echo(f"error: {' '.join(text.split())}", err=True)


def _code_of(error: HedwigError) -> ExitCode:
    match error:
        case UncertainStateError():
            return ExitCode.OUTCOME_UNKNOWN
        case MetadataUnavailableError() | ServiceDownError():
            return ExitCode.UNAVAILABLE
        case ConfigurationError():
            return ExitCode.USAGE
        case _:
            return ExitCode.FAILED


if __name__ == "__main__":
    main()
