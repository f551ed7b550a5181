"""Names that the original cannot store, or would take for something else; our code escapes their components."""

from typing import Final

from hedwig.model import SubscriberId, Topic

__all__ = ["ESCAPED_SUBSCRIBER", "ESCAPED_TOPICS"]

ESCAPED_TOPICS: Final = {
    Topic(b"\xff\x00"): "%=%ff%00",
    Topic(b"//"): "%=%2f%2f",
    Topic(b"made-before-the-hub/hub"): "%=made-before-the-hub%2fhub",
    Topic(b"made-before-the-hub/"): "%=made-before-the-hub%2f",
    Topic(b"."): "%=.",
    Topic(b"%=x"): "%=%25%3dx",
}
"""Each with the name of its node."""

ESCAPED_SUBSCRIBER: Final = SubscriberId(b"sub/scriber")
