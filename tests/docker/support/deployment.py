"""The compose file as a deployment, started through testcontainers beside other containers of this machine."""

import json
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pytest
from testcontainers.compose import DockerCompose

from tests.docker.support.compose_file import DOCKER, read_compose_file

__all__ = ["HUBS", "Deployment", "wait_until"]

HUBS: Final = ("hub1", "hub2", "hub3")
_ASK_S: Final = 60.0
_PAUSE_S: Final = 0.2
# It has its own name, network and address, so it does not touch a deployment that runs on this machine.
_OWN: Final = {"COMPOSE_PROJECT_NAME": "hedwig-test", "HEDWIG_NETWORK": "10.213.94"}
_LOOPBACK: Final = "127.0.0.94"
_LOAD: Final = (
    "import os, urllib.request;"
    "where = os.environ['HEDWIG_HUB_ADMIN_HOST'] + ':' + os.environ['HEDWIG_HUB_ADMIN_PORT'];"
    "token = open(os.environ['HEDWIG_ADMIN_TOKEN_FILE']).read().strip();"
    "asked = urllib.request.Request(f'http://{where}/load', headers={'Authorization': f'Bearer {token}'});"
    "print(urllib.request.urlopen(asked, timeout=30).read().decode())"
)


class Deployment:
    """A running deployment; create it with `started`.

    `addresses` are those of the hubs, host:port, as published on this machine.
    """

    def __init__(self, compose: DockerCompose, addresses: Mapping[str, str]) -> None:
        self._compose = compose
        self.addresses = addresses

    @classmethod
    @contextmanager
    def started(cls) -> Iterator["Deployment"]:
        """Build the images, start all services, wait until they are healthy; at the end remove them and their volumes.

        Skip the test where no Docker engine runs, or where it has no Compose.
        """
        engine = _docker("info", "--format", "{{.OperatingSystem}}")
        _docker("compose", "version")
        own = dict(_OWN)
        if "Docker Desktop" in engine:
            # Its networks are in a virtual machine, so clients reach the hubs at an address of this machine.
            own["HEDWIG_ADVERTISED_HOST"] = _address_of_this_machine()
        else:
            own["HEDWIG_PUBLISHED_ADDRESS"] = _LOOPBACK
        services = read_compose_file(own)["services"]
        # testcontainers runs `docker compose` in the environment of this process.
        with pytest.MonkeyPatch.context() as patch:
            for name, value in own.items():
                patch.setenv(name, value)
            compose = DockerCompose(DOCKER, compose_file_name="compose.yaml", build=True, wait=True)
            with compose:
                yield cls(compose, {hub: services[hub]["ports"][0].rpartition(":")[0] for hub in HUBS})

    def start(self) -> None:
        """Start the services that do not run, and wait until they are healthy. Formatted stores stay unchanged."""
        self._run("up", "--wait")

    def kill(self, service: str) -> None:
        """Kill the container of a service; it cannot close anything, and stays dead until `start`."""
        self._run("kill", service)

    def stop(self, service: str) -> int:
        """End a service in order, and return the exit code of its process."""
        self._run("stop", service)
        code = self._compose.get_container(service, include_all=True).ExitCode
        assert code is not None, f"{service} has not ended"
        return code

    def run(self, service: str, command: Sequence[str]) -> str:
        """Run a command in the container of a service, and return its output."""
        return self._compose.exec_in_container(list(command), service)[0]

    def load(self, hub: str) -> Mapping[str, Any]:
        """Return the load that the admin endpoint of a hub reports."""
        load = json.loads(self.run(hub, ["python", "-c", _LOAD]))
        assert isinstance(load, dict)
        return load

    def _run(self, *arguments: str) -> None:
        command = [*self._compose.docker_compose_command(), *arguments]
        ran = subprocess.run(command, cwd=DOCKER, capture_output=True, text=True, timeout=600, check=False)
        assert ran.returncode == 0, f"{' '.join(command)}: {ran.stderr}"


def wait_until(what: str, condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until `condition` holds; fail with `what` if that takes longer than `seconds`."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}"
        time.sleep(_PAUSE_S)


def _docker(*arguments: str) -> str:
    """Return the output of docker, or skip the test with the reason."""
    try:
        ran = subprocess.run(
            ["docker", *arguments],
            capture_output=True,
            text=True,
            timeout=_ASK_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError:
        pytest.skip("docker is not installed")
    except subprocess.TimeoutExpired:
        pytest.skip(f"docker {arguments[0]} did not answer within {_ASK_S:g} s")
    if ran.returncode != 0:
        said = (ran.stderr or ran.stdout).strip().splitlines() or ["nothing"]
        pytest.skip(f"no Docker engine with Compose runs here: docker {arguments[0]} says: {said[-1]}")
    return ran.stdout


def _address_of_this_machine() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        # This sends nothing: it only looks up the route to an address of a documentation network.
        asking.connect(("192.0.2.1", 9))
        address: str = asking.getsockname()[0]
        return address
