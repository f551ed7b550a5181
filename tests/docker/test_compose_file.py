"""Prove what can be proved about the compose file and the images without Docker."""

import fnmatch
import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import pytest

from hedwig.hub.options.configuration import Configuration, from_environment
from hedwig.hub.options.keys import keys, variable
from hedwig.metadata import MetadataUrl
from hedwig.quantities import duration_s
from tests.docker.support.compose_file import DOCKER, is_one_shot, read_compose_file
from tests.support.checkout import CHECKOUT

COMPOSE: Final = read_compose_file()
SERVICES: Final[Mapping[str, Any]] = COMPOSE["services"]
HUBS: Final = ("hub1", "hub2", "hub3")
DOCKERFILES: Final = sorted(DOCKER.glob("*/Dockerfile"))
SCRIPTS: Final = sorted(DOCKER.glob("*/*.sh"))
# Variables of hedwig-hub itself that are no options of a hub.
OTHER_VARIABLES: Final = ("HEDWIG_HUB_CONFIG", "HEDWIG_HUB_LOG_LEVEL")


def _context(name: str) -> tuple[Path, Path]:
    """Return the Dockerfile of a service, and the folder in which its COPY starts."""
    build = SERVICES[name]["build"]
    context = (DOCKER / build["context"]).resolve()
    return context / build.get("dockerfile", "Dockerfile"), context


def _options(name: str, environment: Mapping[str, str] | None = None) -> Configuration:
    """Return the options of a hub, as its image and the compose file give them."""
    image = dict(re.findall(r"(HEDWIG_HUB_\w+)=(\S+)", (DOCKER / "hub" / "Dockerfile").read_text()))
    service = read_compose_file(environment)["services"][name]
    return Configuration.combine(from_environment({**image, **service["environment"]}, others=OTHER_VARIABLES))


# ------------------------------------------------------------------------------------------------------ services


def test_there_is_all_that_a_cluster_needs() -> None:
    assert set(SERVICES) == {
        *("zookeeper", "hbase-master", "hbase-region", "bookie1", "bookie2", "bookie3", *HUBS),
        *("bookkeeper-format", "metadata-format", "admin-token"),
    }


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_has_a_health_check_or_is_waited_for_until_it_has_ended(name: str) -> None:
    service = SERVICES[name]
    if is_one_shot(SERVICES, name):
        assert service["healthcheck"] == {"disable": True}
        assert service["restart"] == "no"
        return
    check = service["healthcheck"]
    assert check["test"][0] == "CMD"
    assert duration_s(check["timeout"].replace("s", " s")) < duration_s(check["interval"].replace("s", " s"))
    assert check["retries"] >= 1
    assert check["start_period"]
    assert service["restart"] == "unless-stopped"


@pytest.mark.parametrize("name", SERVICES)
def test_services_start_once_what_they_need_is_healthy(name: str) -> None:
    for other, wait in SERVICES[name].get("depends_on", {}).items():
        expected = "service_completed_successfully" if is_one_shot(SERVICES, other) else "service_healthy"
        if (name, other) == ("hbase-region", "hbase-master"):
            expected = "service_started"  # The master is healthy once it has a region server.
        assert wait["condition"] == expected, other


def test_volumes_are_named_and_each_belongs_to_one_service() -> None:
    used: dict[str, list[str]] = {}
    for name, service in SERVICES.items():
        for volume in service.get("volumes", ()):
            used.setdefault(volume.partition(":")[0], []).append(name)
    assert set(used) == set(COMPOSE["volumes"])
    # Without HDFS all servers of HBase must share a directory. Hubs share the token of their admin endpoints.
    assert {volume: names for volume, names in used.items() if len(names) > 1} == {
        "hbase": ["hbase-master", "hbase-region"],
        "secrets": ["metadata-format", "admin-token", *HUBS],
    }


def test_only_hubs_are_published() -> None:
    assert {name for name, service in SERVICES.items() if service.get("ports")} == set(HUBS)


# ------------------------------------------------------------------------------------------------------ hubs


@pytest.mark.parametrize("name", SERVICES)
def test_every_variable_of_a_hub_is_an_option(name: str) -> None:
    known = {variable(key) for key in keys()} | set(OTHER_VARIABLES)
    given = {each for each in SERVICES[name].get("environment", {}) if each.startswith("HEDWIG_HUB_")}
    assert given <= known
    assert bool(given) == (name in HUBS)


@pytest.mark.parametrize("name", HUBS)
@pytest.mark.parametrize(
    ("environment", "advertised", "published"),
    [
        ({}, None, "127.0.0.1"),
        ({"HEDWIG_ADVERTISED_HOST": "192.168.1.5"}, "192.168.1.5", "192.168.1.5"),
        (
            {"HEDWIG_ADVERTISED_HOST": "hubs.example", "HEDWIG_PUBLISHED_ADDRESS": "0.0.0.0"},
            "hubs.example",
            "0.0.0.0",
        ),
        ({"HEDWIG_NETWORK": "10.1.2"}, None, "127.0.0.1"),
    ],
)
def test_hub_is_reached_at_the_address_that_redirects_name(
    name: str, environment: Mapping[str, str], advertised: str | None, published: str
) -> None:
    service = read_compose_file(environment)["services"][name]
    options = _options(name, environment).options
    own = service["networks"]["default"]["ipv4_address"]
    assert own.startswith(environment.get("HEDWIG_NETWORK", "10.213.93") + ".")
    assert options.host == "0.0.0.0"
    assert options.advertised_host == (advertised or own)
    # The port inside and outside is the same, because a redirect names one address for both.
    assert service["ports"] == [f"{published}:{options.port}:{options.port}"]
    assert options.admin_host == own


def test_hubs_differ_in_address_and_port_and_in_nothing_else() -> None:
    own = {"advertised_host", "port", "admin_host"}
    configured = [_options(name).values() for name in HUBS]
    for key in configured[0]:
        assert len({str(values[key]) for values in configured}) == (len(HUBS) if key in own else 1), key


def test_addresses_of_hubs_are_given_to_nobody_else() -> None:
    (pool,) = COMPOSE["networks"]["default"]["ipam"]["config"]
    assert pool == {"subnet": "10.213.93.0/24", "ip_range": "10.213.93.128/25"}
    hosts = [int(SERVICES[name]["networks"]["default"]["ipv4_address"].rpartition(".")[2]) for name in HUBS]
    assert all(1 < host < 128 for host in hosts)


@pytest.mark.parametrize("name", HUBS)
def test_admin_endpoint_asks_for_the_token_that_a_service_has_made(name: str) -> None:
    options = _options(name).options
    made = SERVICES["admin-token"]["command"]
    assert options.are_operators_asked
    assert (
        options.admin_token_file
        == made[made.index("token") + 1]
        == SERVICES[name]["environment"]["HEDWIG_ADMIN_TOKEN_FILE"]
    )
    (volume,) = SERVICES[name]["volumes"]
    assert options.admin_token_file.startswith(volume.partition(":")[2] + "/")
    assert volume.partition(":")[2] in (DOCKER / "hub" / "Dockerfile").read_text()


@pytest.mark.parametrize("name", [*HUBS, "metadata-format", "admin-token"])
def test_a_hub_can_do_no_more_than_it_must(name: str) -> None:
    service = SERVICES[name]
    assert (service["cap_drop"], service["read_only"]) == (["ALL"], True)
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_only_hubs_reach_the_stores() -> None:
    assert COMPOSE["networks"]["stores"] == {"internal": True}
    for name, service in SERVICES.items():
        if name == "admin-token":
            assert service["network_mode"] == "none"
        else:
            assert set(service["networks"]) == ({"stores", "default"} if name in HUBS else {"stores"}), name


@pytest.mark.parametrize("name", HUBS)
def test_hub_is_one_of_a_cluster_on_the_servers_of_the_file(name: str) -> None:
    options = _options(name).options
    assert options.is_clustered
    for url in (options.metadata, options.cluster.zookeeper, options.bookkeeper.zookeeper):
        assert list(MetadataUrl.parse(url).endpoints(2181)) == [("zookeeper", 2181)]
    environment = SERVICES["bookie1"]["environment"]
    assert options.bookkeeper.zookeeper == (
        f"zookeeper://{environment['BOOKKEEPER_ZOOKEEPER']}{environment['BOOKKEEPER_ROOT']}"
    )
    command = SERVICES["metadata-format"]["command"]
    assert command[command.index("--metadata") + 1] == options.metadata


@pytest.mark.parametrize("name", HUBS)
def test_one_bookie_may_be_away(name: str) -> None:
    quorums = _options(name).options.bookkeeper
    bookies = [service for service in SERVICES if re.fullmatch(r"bookie\d", service)]
    # A hub opens a ledger only if its ensemble has enough bookies.
    assert quorums.ensemble < len(bookies)
    assert quorums.ack_quorum >= 2, "one disk is not enough to acknowledge a message"


@pytest.mark.parametrize("name", HUBS)
def test_hub_has_time_to_close_in_order(name: str) -> None:
    grace_s = float(SERVICES[name]["stop_grace_period"].removesuffix("s"))
    assert grace_s >= _options(name).options.shutdown_s + 10


# ------------------------------------------------------------------------------------------------------ images


def _pin(pom: Path, artifact: str) -> str:
    for dependency in ElementTree.parse(pom).getroot().iter("dependency"):
        if dependency.findtext("artifactId") == artifact:
            pinned = dependency.findtext("version")
            assert pinned is not None
            return pinned
    raise AssertionError(f"{pom} does not name {artifact}")


def test_versions_are_those_of_the_launcher() -> None:
    poms = CHECKOUT / "cli" / "dev" / "poms"
    images = {name: service["image"] for name, service in SERVICES.items()}
    assert images["zookeeper"] == f"zookeeper:{_pin(poms / 'zookeeper.xml', 'zookeeper')}"
    assert images["bookie1"] == f"hedwig-bookkeeper:{_pin(poms / 'bookkeeper.xml', 'bookkeeper-server')}"
    hbase = _pin(DOCKER / "hbase" / "pom.xml", "hbase-server")
    assert hbase == _pin(poms / "hbase.xml", "hbase-server") + "-hadoop3"
    assert images["hbase-master"] == images["hbase-region"] == f"hedwig-hbase:{hbase}"
    # Built from this checkout, whose version stands in pyproject.toml alone.
    assert {images[name] for name in HUBS} == {"hedwig-hub"}


@pytest.mark.parametrize(
    ("folder", "pom", "artifact"),
    [
        ("bookkeeper", CHECKOUT / "cli" / "dev" / "poms" / "bookkeeper.xml", "bookkeeper-server"),
        ("hbase", DOCKER / "hbase" / "pom.xml", "hbase-server"),
    ],
)
def test_jars_are_pinned_at_the_version_of_the_pom(folder: str, pom: Path, artifact: str) -> None:
    lines = (DOCKER / folder / "jars.sha256").read_text().splitlines()
    assert all(re.fullmatch(r"[0-9a-f]{64}  [\w.+-]+\.jar", line) for line in lines)
    names = [line.split()[1] for line in lines]
    assert names == sorted(set(names))
    assert f"{artifact}-{_pin(pom, artifact)}.jar" in names


def _stages(dockerfile: Path) -> list[list[str]]:
    """Return the instructions of each stage, one line each."""
    text = re.sub(r"\\\n", " ", dockerfile.read_text())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    starts = [number for number, line in enumerate(lines) if line.startswith("FROM ")]
    return [lines[start:end] for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)]


def _is_ignored(rules: list[str], path: str) -> bool:
    """Return whether a build's context leaves a path out. The last rule that matches it, or a folder of it, decides."""
    parts = path.split("/")
    above = ["/".join(parts[: count + 1]) for count in range(len(parts))]
    ignored = False
    for rule in rules:
        pattern = rule.removeprefix("!")
        if any(fnmatch.fnmatchcase(each, pattern) for each in above):
            ignored = not rule.startswith("!")
    return ignored


@pytest.mark.parametrize("name", ["hub1", "bookie1", "hbase-master"])
def test_image_copies_what_exists_and_is_not_ignored(name: str) -> None:
    dockerfile, context = _context(name)
    ignore = dockerfile.with_name("Dockerfile.dockerignore")
    rules = [line for line in ignore.read_text().splitlines() if line[0] != "#"] if ignore.exists() else []
    copied = 0
    for line in (line for stage in _stages(dockerfile) for line in stage if line.startswith("COPY ")):
        words = shlex.split(line)[1:]
        if words[0].startswith("--from="):
            continue
        for source in words[:-1]:
            assert (context / source).exists(), source
            assert not _is_ignored(rules, source), source
            copied += 1
    assert copied >= 3


def test_wheel_of_the_image_has_every_package() -> None:
    text = (CHECKOUT / "pyproject.toml").read_text()
    packages = re.search(r"^packages = \[(.*)\]$", text, re.MULTILINE)
    assert packages is not None
    copied = {word for stage in _stages(DOCKER / "hub" / "Dockerfile") for line in stage for word in shlex.split(line)}
    parts = {path.name for path in (CHECKOUT / "hedwig").iterdir() if path.is_symlink()}
    assert {*re.findall(r'"(\w+)"', packages[1]), *parts} <= copied


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.parent.name)
def test_image_runs_as_somebody_who_is_not_root(dockerfile: Path) -> None:
    last = _stages(dockerfile)[-1]
    users = [line.split()[1] for line in last if line.startswith("USER ")]
    assert [bool(re.fullmatch(r"[1-9]\d+:[1-9]\d+", user)) for user in users] == [True]
    assert "STOPSIGNAL SIGTERM" in last
    # The form without a shell, so that signals reach the server.
    assert [line for line in last if line.startswith("ENTRYPOINT [")]


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.parent.name)
def test_images_that_others_make_have_a_fixed_version(dockerfile: Path) -> None:
    arguments = dict(re.findall(r"^ARG (\w+)=(\S+)$", dockerfile.read_text(), re.MULTILINE))
    for stage in _stages(dockerfile):
        base = re.sub(r"\$\{(\w+)\}", lambda match: arguments[match[1]], stage[0].split()[1])
        assert re.search(r":\d", base), base


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_script_can_be_run(script: Path) -> None:
    assert script.stat().st_mode & 0o555 == 0o555
    assert script.read_text().startswith("#!/bin/bash\n")
    subprocess.run(["bash", "-n", str(script)], check=True, timeout=60)


@pytest.mark.parametrize(
    ("script", "arguments"), [("bookkeeper", ["bookie"]), ("hbase", ["master"]), ("hbase", ["regionserver"])]
)
def test_server_is_not_started_without_a_zookeeper(script: str, arguments: list[str]) -> None:
    ran = subprocess.run(
        [str(DOCKER / script / "start.sh"), *arguments], env={}, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 2
    assert ran.stderr.startswith("error: cannot start: ")
    assert len(ran.stderr.splitlines()) == 1


def test_readme_has_the_command_that_starts_it() -> None:
    assert "docker compose -f docker/compose.yaml up --wait" in (CHECKOUT / "README.md").read_text()
