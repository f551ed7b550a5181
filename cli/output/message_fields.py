"""Messages as the fields that commands write."""

import base64
from typing import Any

from hedwig.cli.output.fields import named_fields, text_field
from hedwig.cli.output.formats import Row
from hedwig.names import bytes_fields, show_name
from hedwig.wire import Message

__all__ = ["message_fields"]


def message_fields(message: Message, *, is_escaped: bool) -> Row:
    """Return a message as fields. A body that is text stays unchanged, unless `is_escaped` escapes it as names are."""
    fields: dict[str, Any] = {"id": None if message.seq_id is None else message.seq_id.local}
    fields |= _body_fields(message.body, is_escaped)
    fields["properties"] = named_fields(message.properties)
    fields["message_type"] = text_field(message.message_type)
    region = message.source_region
    return fields | ({"source_region": None} if region is None else bytes_fields("source_region", region))


def _body_fields(body: bytes, is_escaped: bool) -> dict[str, str]:
    if is_escaped:
        return {"body": show_name(body)}
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body": show_name(body), "body_base64": base64.b64encode(body).decode()}
