"""A chat with rooms. Each guest says which messages it wants, and the hub sends no others.

    python examples/chat.py join lobby ann                        what others say in the room; each line typed is said
    python examples/chat.py join lobby bob --only 'lang in ("de", "fr") or to = "bob"'

A room is a topic, and a guest a subscription to it, so a guest that comes back gets what it has missed. Messages have
properties: who says it, in which language, and to whom. The filter is an expression on them.
"""

import argparse
import asyncio
import sys

from hedwig import HedwigClient, Message
from hedwig.client import ClientOptions, HubAddress
from hedwig.errors import HedwigError


async def listen(client: HedwigClient, room: str, name: str, only: str) -> None:
    """Print what others say in a room, as far as the guest wants it."""
    wanted = f"not from = {quoted(name)}" + (f" and ({only})" if only else "")
    async with client.subscribe(f"chat/{room}", name, filter=wanted) as subscription:
        print(f"{name} is in the {room}", flush=True)
        async for message in subscription:
            print(f"{message.properties['from'].decode()}: {message.body.decode()}", flush=True)


def quoted(text: str) -> str:
    """Return a text as filters spell it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


async def talk(client: HedwigClient, room: str, name: str, lang: str) -> None:
    """Say each line of standard input. A line `@bob hello` is said to bob."""
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := (await lines.readline()).decode().strip():
        properties = {"from": name.encode(), "lang": lang.encode()}
        if line.startswith("@"):
            to, _, line = line[1:].partition(" ")
            properties["to"] = to.encode()
        await client.publish(f"chat/{room}", Message(line.encode(), properties=properties))


async def join(given: argparse.Namespace) -> None:
    """Be in a room until an empty line, or the end of standard input."""
    options = ClientOptions(hub=HubAddress.parse(given.hub), publish_once=True)
    async with HedwigClient(options) as client:
        listening = asyncio.create_task(listen(client, given.room, given.name, given.only))
        talking = asyncio.create_task(talk(client, given.room, given.name, given.lang))
        ended, others = await asyncio.wait([listening, talking], return_when=asyncio.FIRST_COMPLETED)
        for each in others:
            each.cancel()
        await asyncio.wait([listening, talking])
        for each in ended:
            each.result()


def main() -> None:
    """Parse the arguments."""
    parser = argparse.ArgumentParser(description="A chat with rooms.")
    parser.add_argument("--hub", default="127.0.0.1:4080", metavar="HOST:PORT")
    joining = parser.add_subparsers(dest="command", required=True).add_parser("join")
    joining.add_argument("room")
    joining.add_argument("name")
    joining.add_argument("--lang", default="en", help="the language that this guest speaks")
    joining.add_argument("--only", default="", help='which messages it wants, such as: lang = "de"')
    try:
        asyncio.run(join(parser.parse_args()))
    except KeyboardInterrupt:
        pass
    except HedwigError as error:
        sys.exit(f"chat: {error}")


if __name__ == "__main__":
    main()
