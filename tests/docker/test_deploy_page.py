"""Prove that the metrics, options, files and ports that docs/how-to/deploy.md names exist."""

import re
import urllib.request
from pathlib import Path
from typing import Final

from hedwig.hub.options.keys import keys
from tests.cli.commands.hub.test_hubs_of_a_cluster import Pair
from tests.docker.support.compose_file import DOCKER, read_compose_file
from tests.hub.support.running import RunningHub
from tests.support.checkout import CHECKOUT
from tests.support.servers import RunningServers

PAGE: Final = (CHECKOUT / "docs" / "how-to" / "deploy.md").read_text()


def test_every_metric_is_one_that_a_hub_has(servers: RunningServers, tmp_path: Path) -> None:
    named = set(re.findall(r"`(hedwig_hub_\w+|process_\w+)`", PAGE))
    assert len(named) > 10
    metrics: set[str] = set()
    with RunningHub(tmp_path / "standalone") as standalone, Pair(servers, tmp_path) as pair:
        for hub in (standalone, pair.hubs[0]):
            with urllib.request.urlopen(f"http://{hub.admin}/metrics", timeout=30) as answer:
                metrics |= set(re.findall(r"^(?:# TYPE )?([a-z_]+)[ {]", answer.read().decode(), re.MULTILINE))
    assert named <= metrics


def test_every_option_with_a_table_exists() -> None:
    tables = {name.partition(".")[0] for name in keys() if "." in name}
    named = {name for name in re.findall(r"`([a-z]+\.[a-z_]+)`", PAGE) if name.partition(".")[0] in tables}
    assert len(named) >= 5
    assert named <= set(keys())


def test_services_images_and_ports_are_those_of_the_compose_file() -> None:
    services = read_compose_file()["services"]
    for hub in ("hub1", "hub2", "hub3"):
        assert services[hub]["environment"]["HEDWIG_HUB_PORT"] in PAGE
        assert services[hub]["image"] in PAGE
    assert services["zookeeper"]["image"] in PAGE
    for variable in re.findall(r"`(HEDWIG_[A-Z_]+)=", PAGE):
        assert f"${{{variable}" in (DOCKER / "compose.yaml").read_text()
