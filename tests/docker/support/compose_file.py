"""The compose file, with the variables that it accepts filled in."""

import re
from collections.abc import Mapping
from typing import Any, Final

import yaml

from tests.support.checkout import CHECKOUT

__all__ = ["DOCKER", "is_one_shot", "read_compose_file"]

DOCKER: Final = CHECKOUT / "docker"

_VARIABLE: Final = re.compile(r"\$\{(\w+):-((?:[^${}]|\$\{[^{}]*\})*)\}")


def read_compose_file(environment: Mapping[str, str] | None = None) -> Mapping[str, Any]:
    """Return the compose file with each `${NAME:-default}` replaced as Compose does it, also a default in a default."""
    given = environment or {}
    text = (DOCKER / "compose.yaml").read_text()
    while (match := _VARIABLE.search(text)) is not None:
        text = text[: match.start()] + (given.get(match[1]) or match[2]) + text[match.end() :]
    assert "${" not in text, "a variable is written in a way that is not understood here"
    content = yaml.safe_load(text)
    assert isinstance(content, dict)
    return content


def is_one_shot(services: Mapping[str, Any], name: str) -> bool:
    """Return whether other services wait for its end. If so, `up --wait` waits too, and fails if the service failed."""
    waits = [service.get("depends_on", {}).get(name) for service in services.values()]
    return {each["condition"] for each in waits if each is not None} == {"service_completed_successfully"}
