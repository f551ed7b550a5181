"""The command `hedwig-admin publish`."""

import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from hedwig.cli.arguments.input_file import InputFile
from hedwig.cli.arguments.names import TOPIC
from hedwig.cli.commands.subscription.preferences import named_value
from hedwig.cli.output.formats import Output
from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.hub_access import HubAccess, hub_options, with_hub
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.cli.settings.topic_names import complete_topic
from hedwig.client import HedwigClient, Message
from hedwig.clock import SystemClock
from hedwig.errors import OperationError, ProtocolError, ServiceError, exit_code_of
from hedwig.human_units import counted
from hedwig.model import Topic
from hedwig.names import name_fields, show_name
from hedwig.operations.errors import explain
from hedwig.operations.loads.interruptible_file import InterruptibleFile, standard_input
from hedwig.operations.loads.line_publisher import LinePublisher, Published
from hedwig.operations.loads.message_lines import MessageLines
from hedwig.operations.progress import LoadProgress, load_progress

__all__ = ["publish"]


@click.command("publish", cls=AdminCommand, example="hedwig-admin publish news 'hello, world'")
@click.argument("topic", type=TOPIC, shell_complete=complete_topic)
@click.argument("message", required=False)
@click.option(
    "-f",
    "--file",
    type=InputFile(path_type=Path),
    help="Publish the bytes of a file as one message.",
)
@click.option(
    "--property", "properties", metavar="KEY=VALUE", multiple=True, help="A property of each message; may be repeated."
)
@click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), metavar="NUMBER", help="Most lines to publish per second."
)
@click.option(
    "--in-flight",
    type=click.IntRange(1, 10_000),
    default=256,
    show_default=True,
    help="Maximum number of lines under way, not yet acknowledged.",
)
@click.option("--ids", is_flag=True, help="Write the id of each line, in place of a summary.")
@hub_options()
@pass_settings
def publish(
    settings: Settings,
    /,
    topic: Topic,
    message: str | None,
    file: Path | None,
    properties: Sequence[str],
    rate: float | None,
    in_flight: int,
    ids: bool,
    hub: HubAccess,
) -> None:
    """Publish MESSAGE, or a file, or else each line of standard input, to a topic.

    The command ends when a hub has stored all messages. Lines keep their order. After Ctrl-C or an error, it reads no
    more, waits for the lines under way, and says how many were published.
    """
    given = dict(named_value(text, "--property") for text in properties)
    if message is not None and file is not None:
        raise click.UsageError("give either MESSAGE or --file")
    if message is not None or file is not None:
        if ids or rate is not None:
            raise click.UsageError("--rate and --ids go with the lines of standard input")
        body = file.read_bytes() if file is not None else os.fsencode(message or "")
        _publish_one(settings, hub, topic, Message(body, properties=given))
        return
    output = settings.writer()
    with closing(MessageLines(InterruptibleFile(standard_input()))) as lines:
        running = _PublishedLines(settings, topic, output, lines, writes_ids=ids)
        running.publish(hub, given, rate=rate, in_flight_max=in_flight)


def _publish_one(settings: Settings, hub: HubAccess, topic: Topic, message: Message) -> None:
    output = settings.writer()

    async def send(client: HedwigClient) -> None:
        seq_id = await client.publish(topic, message)
        output.record(name_fields(topic) | {"id": seq_id.local})

    with_hub(settings, hub, f"topic '{show_name(topic)}'", send, publish_once=True)


class _PublishedLines:
    """Publishes the lines of standard input, and reports them."""

    def __init__(
        self, settings: Settings, topic: Topic, output: Output, lines: MessageLines, *, writes_ids: bool
    ) -> None:
        self._settings = settings
        self._topic = topic
        self._output = output
        self._lines = lines
        self._writes_ids = writes_ids
        is_typed = sys.stdin.isatty()
        if is_typed:
            click.echo("each line that you type is a message; Ctrl-D ends it", err=True)
        is_shared = is_typed or (writes_ids and sys.stdout.isatty())
        self._progress: LoadProgress = load_progress("publishing", lines.size, noun="messages", is_shared=is_shared)
        self._first: int | None = None
        self._last: int | None = None

    def publish(self, hub: HubAccess, properties: dict[str, bytes], *, rate: float | None, in_flight_max: int) -> None:
        """Publish all, and write the ids or a summary. Raises OperationError, after a report of the published lines."""

        async def messages() -> AsyncIterator[Message]:
            async for line in self._lines.read():
                yield Message(line, properties=properties)

        async def send(client: HedwigClient) -> None:
            publisher = LinePublisher(
                client,
                self._topic,
                rate=rate,
                in_flight_max=in_flight_max,
                clock=SystemClock(),
                report=self._report,
            )
            try:
                await publisher.run(messages())
            except (ServiceError, ProtocolError) as exc:
                raise self._failure(exc, publisher) from exc
            except BaseException:
                self._progress.say(_outcome(publisher))
                raise
            finally:
                # A thread may still wait for input. Only this ends it.
                self._lines.interrupt()

        if self._writes_ids:
            self._output.begin("messages", ("line", "id"), ("line", "id"))
        subject = f"topic '{show_name(self._topic)}'"
        try:
            with self._progress:
                self._progress.begin(0)
                with_hub(self._settings, hub, subject, send, publish_once=True, publishes_in_flight_max=in_flight_max)
        finally:
            if self._writes_ids:
                self._output.end()
        if not self._writes_ids:
            self._output.record(self._summary())

    def _report(self, batch: list[Published]) -> None:
        self._first = self._first or batch[0].seq_id.local
        self._last = batch[-1].seq_id.local
        if self._writes_ids:
            self._output.page([{"line": each.line, "id": each.seq_id.local} for each in batch])
        self._progress.advance(len(batch), self._lines.read_bytes)

    def _summary(self) -> dict[str, Any]:
        return name_fields(self._topic) | {
            "published": self._progress.rows,
            "first_id": self._first,
            "last_id": self._last,
            "seconds": round(self._progress.seconds, 3),
            "messages_per_second": round(self._progress.rows_per_second),
        }

    def _failure(self, error: ServiceError | ProtocolError, publisher: LinePublisher) -> OperationError:
        line = self._progress.rows + 1
        return OperationError(
            f"publish failed on topic '{show_name(self._topic)}' at line {line}: {explain(error, '')}; "
            f"{_outcome(publisher)}{', among them all before that line' if publisher.published else ''}",
            exit_code_of(error),
        )


def _outcome(publisher: LinePublisher) -> str:
    published = f"{publisher.published:,} are" if publisher.published else "none is"
    return f"of {counted(publisher.sent, 'message')} sent {published} published"
