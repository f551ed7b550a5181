"""A chat with rooms. Each guest says which messages it wants, and the hub sends no others.

    python examples/chat.py join lobby ann                        what others say in the room; each line typed is said
    python examples/chat.py join lobby bob --only 'lang in ("de", "fr") or to = "bob"'

A room is a topic, and a guest a subscription to it, so a guest that comes back gets what it has missed. Messages have
properties: who says it, in which language, and to whom. The filter is an expression on them.
"""

import argparse
import asyncio
import contextlib
import sys

from hedwig import HedwigClient, Message

NOT_OWN = 'not from = "{name}"'


async def listen(client: HedwigClient, room: str, name: str, only: str) -> None:
    """Print what others say in a room, as far as the guest wants it."""
    wanted = NOT_OWN.format(name=name) + (f" and ({only})" if only else "")
    async with client.subscribe(f"chat/{room}", name, filter=wanted) as subscription:
        print(f"{name} is in the {room}", flush=True)
        async for message in subscription:
            print(f"{message.properties['from'].decode()}: {message.body.decode()}", flush=True)


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
    async with HedwigClient(given.hub) as client:
        listening = asyncio.create_task(listen(client, given.room, given.name, given.only))
        talking = asyncio.create_task(talk(client, given.room, given.name, given.lang))
        await asyncio.wait([listening, talking], return_when=asyncio.FIRST_COMPLETED)
        for each in (listening, talking):
            each.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await each


def main() -> None:
    """Parse the arguments."""
    parser = argparse.ArgumentParser(description="A chat with rooms.")
    parser.add_argument("--hub", default="127.0.0.1:4080", metavar="HOST:PORT")
    joining = parser.add_subparsers(dest="command", required=True).add_parser("join")
    joining.add_argument("room")
    joining.add_argument("name")
    joining.add_argument("--lang", default="en", help="the language that this guest speaks")
    joining.add_argument("--only", default="", help='which messages it wants, such as: lang = "de"')
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(join(parser.parse_args()))


if __name__ == "__main__":
    main()
