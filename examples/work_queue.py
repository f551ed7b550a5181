"""A queue of jobs, whose worker may crash at any time: the next in line goes on where it ended.

    python examples/work_queue.py submit 20       20 jobs
    python examples/work_queue.py work ann        a worker; start several, and kill the one that works
    python examples/work_queue.py results 20      what came of the jobs

All workers subscribe as `workers`, with standby: one has the subscription, the others wait in line. A job is consumed
once its result is published, so the job of a worker that crashes comes again. Results are published under a name, with
the position of the job as sequence: a job that is done again within a minute has one result. If all workers are away
for longer, the last job may have two.
"""

import argparse
import asyncio
import contextlib
import sys
import time

from hedwig import HedwigClient, Message
from hedwig.client import ClientOptions, HubAddress, Opening, Received
from hedwig.errors import HedwigError, TopicBusyError

JOBS = "jobs"
RESULTS = "results"
# A worker that stands still loses its place after this time.
SILENCE_S = 2.0


async def submit(client: HedwigClient, count: int) -> None:
    """Submit jobs. The first subscriptions are made here: messages are kept for subscriptions that exist."""
    for topic, reader in ((JOBS, "workers"), (RESULTS, "boss")):
        with contextlib.suppress(TopicBusyError):  # A worker has it already.
            await (await client.subscribe(topic, reader)).close()
    async for _ in client.publish_many(JOBS, (b"%d" % number for number in range(1, count + 1))):
        pass
    print(f"{count} jobs are submitted", flush=True)


async def work(client: HedwigClient, name: str, seconds: float) -> None:
    """Do jobs until Ctrl-C."""
    results = client.publisher("results of the workers")
    opening = client.subscribe(JOBS, "workers", standby=True, auto_consume=False)
    waiting = asyncio.create_task(tell_place(name, opening))
    async with opening as subscription:
        waiting.cancel()
        print(f"{name} works", flush=True)
        async for job in subscription:
            result = await do(name, job, seconds)
            # It may be done for the second time: then the first result may be minutes old.
            await results.publish(RESULTS, result, sequence=job.seq_id.local, age_s=60.0)
            await subscription.consume(job.seq_id)


async def tell_place(name: str, opening: Opening) -> None:
    """Say which place a worker has in the line, whenever it changes."""
    place = None
    while True:
        if opening.place != place:
            place = opening.place
            print(f"{name} is number {place} in the line", flush=True)
        await asyncio.sleep(0.1)


async def do(name: str, job: Received, seconds: float) -> Message:
    """Do one job: square a number."""
    print(f"{name} begins job {job.body.decode()}", flush=True)
    await asyncio.sleep(seconds)
    number = int(job.body)
    return Message(b"%d squared is %d" % (number, number * number))


async def results(client: HedwigClient, count: int) -> None:
    """Print the results of so many jobs."""
    began = time.monotonic()
    async with client.subscribe(RESULTS, "boss") as subscription:
        async for result in subscription:
            print(result.body.decode(), flush=True)
            count -= 1
            if not count:
                break
    print(f"all results are here after {time.monotonic() - began:.1f} s", flush=True)


async def run(given: argparse.Namespace) -> None:
    """Run one of the commands."""
    async with HedwigClient(ClientOptions(hub=HubAddress.parse(given.hub), silence_s=SILENCE_S)) as client:
        if given.command == "submit":
            await submit(client, given.count)
        elif given.command == "work":
            await work(client, given.name, given.seconds)
        else:
            await results(client, given.count)


def main() -> None:
    """Parse the arguments."""
    parser = argparse.ArgumentParser(description="A queue of jobs, with workers that stand by.")
    parser.add_argument("--hub", default="127.0.0.1:4080", metavar="HOST:PORT")
    commands = parser.add_subparsers(dest="command", required=True)
    for command in ("submit", "results"):
        commands.add_parser(command).add_argument("count", type=int)
    working = commands.add_parser("work")
    working.add_argument("name")
    working.add_argument("--seconds", type=float, default=0.5, help="how long a job takes")
    try:
        asyncio.run(run(parser.parse_args()))
    except KeyboardInterrupt:
        pass
    except HedwigError as error:
        sys.exit(f"work_queue: {error}")


if __name__ == "__main__":
    main()
