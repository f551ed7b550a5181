"""Prove the health check of the hub's image on one of our hubs."""

import json
import subprocess
import urllib.request
from pathlib import Path

from tests.docker.support.compose_file import DOCKER
from tests.hub.support.running import RunningHub


def _ask(host: str, port: str) -> tuple[int, str]:
    """Run the check as the image does; return its exit code and its output."""
    environment = {"PATH": "/usr/bin:/bin", "HEDWIG_HUB_ADMIN_HOST": host, "HEDWIG_HUB_ADMIN_PORT": port}
    ran = subprocess.run(
        [str(DOCKER / "hub" / "ready.sh")], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return ran.returncode, ran.stdout


def _set_read_only(hub: RunningHub, state: str) -> None:
    request = urllib.request.Request(f"http://{hub.admin}/read-only?state={state}", method="POST")
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 200


def test_check_says_whether_the_hub_takes_messages(tmp_path: Path) -> None:
    with RunningHub(tmp_path) as hub:
        host, _, port = hub.admin.rpartition(":")
        # If a hub listens on all addresses, the check uses the address of its own machine.
        for address in (host, "0.0.0.0"):
            code, text = _ask(address, port)
            assert (code, json.loads(text)["ready"]) == (0, True)
        _set_read_only(hub, "on")
        code, text = _ask(host, port)
        assert code != 0
        assert json.loads(text)["hindrances"] == ["the hub is read-only: publishes are refused"]
        _set_read_only(hub, "off")
        assert _ask(host, port)[0] == 0
    assert _ask(host, port)[0] != 0
