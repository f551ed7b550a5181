"""The command hedwig-hub."""

import asyncio
import logging
import signal
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from hedwig.errors import HedwigError
from hub.hub import Hub
from hub.options import HubOptions

__all__ = ["main"]


@click.command(epilog="Example: hedwig-hub --data hedwig-data --set topic_idle_s=600")
@click.option("--data", type=click.Path(path_type=Path), help="The data directory.")
@click.option("--port", type=int, help="The port to listen on; 0: any free one.")
@click.option("--admin-port", type=int, help="The port of the admin endpoint; 0: any free one, -1: none.")
@click.option("--metadata", help="URL of the metadata store.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Any option of the hub.")
@click.option("--replace-standalone", is_flag=True, help="Take the metadata over from another standalone hub.")
def main(
    data: Path | None,
    port: int | None,
    admin_port: int | None,
    metadata: str | None,
    settings: tuple[str, ...],
    replace_standalone: bool,
) -> None:
    """Serve publishers and subscribers until SIGTERM or Ctrl-C."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    values: dict[str, Any] = {"data_directory": data, "port": port, "admin_port": admin_port, "metadata": metadata}
    kinds = {each.name: type(each.default) for each in fields(HubOptions)}
    for setting in settings:
        key, _, text = setting.partition("=")
        values[key] = text.lower() in ("1", "true") if kinds[key] is bool else kinds[key](text)
    options = HubOptions(**{key: value for key, value in values.items() if value is not None})
    try:
        import uvloop

        factory = uvloop.new_event_loop
    except ImportError:
        factory = None
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(_serve(options, replace_standalone))
    except HedwigError as exc:
        raise click.ClickException(str(exc)) from exc


async def _serve(options: HubOptions, replace_standalone: bool) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with await Hub.start(options, replace_standalone=replace_standalone) as hub:
        click.echo(f"hedwig-hub: serving {options.host}:{hub.port}, data {options.data_directory}")
        await stop.wait()


if __name__ == "__main__":
    main()
