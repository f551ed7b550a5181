"""A fleet of devices, each with a shadow: a topic with the state that it is to have.

    python examples/device_shadows.py gateway                     a gateway to the devices; start several
    python examples/device_shadows.py set temperature=21          the whole fleet, and wait until all have it

A thousand devices are a thousand topics. The gateways share them: each serves a part of the devices, and takes over
those of a gateway that ends or crashes. Of a shadow only the newest state counts, so a subscription keeps one message.
"""

import argparse
import asyncio
import sys
import time
import uuid

from hedwig import HedwigClient, Message
from hedwig.client import ClientOptions, HubAddress
from hedwig.errors import HedwigError
from hedwig.model import MessageSeqId, SubscriptionPreferences

REPORTS = "fleet/reports"


def shadows(devices: int) -> list[str]:
    """Return the topics of the devices."""
    return [f"fleet/device {number}" for number in range(devices)]


async def gateway(client: HedwigClient, devices: int) -> None:
    """Bring the newest state to the devices, and report what they have, until Ctrl-C."""
    only_newest = SubscriptionPreferences(message_bound=1)
    async with client.share(shadows(devices), "gateways", preferences=only_newest) as share:
        print("the gateway takes part", flush=True)
        async for topic, wanted in share:
            state = wanted.body  # Here a real gateway would talk to the device.
            report = Message(state, properties={"device": topic, "order": wanted.properties["order"]})
            await client.publish(REPORTS, report)


async def set_state(client: HedwigClient, devices: int, state: str) -> None:
    """Tell all devices of a state, and wait until each has reported it."""
    began = time.monotonic()
    order = uuid.uuid4().hex.encode()
    wanted = Message(state.encode(), properties={"order": order})
    missing = {topic.encode() for topic in shadows(devices)}

    def published(outcome: MessageSeqId | HedwigError) -> None:
        if isinstance(outcome, HedwigError):
            print(f"a device cannot be told: {outcome}", flush=True)

    # The reports on other orders stay at the hub.
    reader = b"order " + order
    try:
        async with client.subscribe(REPORTS, reader, filter=f'order = "{order.decode()}"') as reports:
            for topic in shadows(devices):
                await client.begin_publish(topic, wanted, published)
            async for report in reports:
                missing.discard(report.properties["device"])
                if not missing:
                    break
    finally:
        await client.unsubscribe(REPORTS, reader)
    print(f"{devices} devices have {state} after {time.monotonic() - began:.1f} s", flush=True)


async def run(given: argparse.Namespace) -> None:
    """Run one of the commands."""
    async with HedwigClient(ClientOptions(hub=HubAddress.parse(given.hub), publish_once=True)) as client:
        if given.command == "gateway":
            await gateway(client, given.devices)
        else:
            await set_state(client, given.devices, given.state)


def main() -> None:
    """Parse the arguments."""
    parser = argparse.ArgumentParser(description="A fleet of devices, each with a shadow.")
    parser.add_argument("--hub", default="127.0.0.1:4080", metavar="HOST:PORT")
    parser.add_argument("--devices", type=int, default=1_000)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("gateway")
    commands.add_parser("set").add_argument("state")
    try:
        asyncio.run(run(parser.parse_args()))
    except KeyboardInterrupt:
        pass
    except HedwigError as error:
        sys.exit(f"device_shadows: {error}")


if __name__ == "__main__":
    main()
