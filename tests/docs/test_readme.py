"""Prove that the README is right: its commands run here, but for those that other tests stand for.

Its program runs beside those of docs/how-to/client.md (tests/client/test_docs.py). tests/packaging installs packages.
tests/docker starts the cluster, where there is Docker; here its second command publishes to a hub without a cluster.
"""

import os
import re
import runpy
import signal
import subprocess
import tomllib
from pathlib import Path
from typing import Final

from tests.support.checkout import CHECKOUT

PAGE: Final = (CHECKOUT / "README.md").read_text(encoding="utf-8")
WORDS_MAX: Final = 600


def _section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_it_is_short() -> None:
    assert len(PAGE.partition("\n## Documents\n")[0].split()) <= WORDS_MAX


def test_its_picture_is_what_the_source_draws() -> None:
    pictures = CHECKOUT / "docs" / "pictures"
    drawn = runpy.run_path(str(pictures / "parts.py"))["draw"]()
    assert drawn == (pictures / "parts.svg").read_text(encoding="utf-8")


def test_what_it_has_installed_are_extras() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {extra for extras in re.findall(r"pip install '\.\[([\w,-]+)\]'", PAGE) for extra in extras.split(",")}
    assert named
    assert named <= project["optional-dependencies"].keys()


def _lines(title: str) -> list[str]:
    """Return the commands of a section, and what they print."""
    return [line.strip().removeprefix("$ ") for line in _section(title).splitlines() if line.startswith("    ")]


def test_a_hub_in_two_commands(tmp_path: Path) -> None:
    run, publish, *printed = _lines("A hub in two commands")
    _, publish_to_cluster = _lines("A cluster in two commands")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HEDWIG_", "XDG_"))}
    environment |= {"HOME": str(tmp_path), "HEDWIG_HUB_PORT": "0", "HEDWIG_HUB_ADMIN_PORT": "0"}
    hub = subprocess.Popen(
        run,
        cwd=CHECKOUT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert hub.stdout is not None
        (address,) = next(filter(None, (re.findall(r"serving ([\d.]+:\d+)", line) for line in hub.stdout)))
        bin_folder = f"{CHECKOUT / '.venv' / 'bin'}:{environment['PATH']}"
        cluster_line = publish_to_cluster.replace("127.0.0.1:4080", address)
        for line, output in ((publish, printed), (cluster_line, [printed[0], "id     2"])):
            published = subprocess.run(
                ["bash", "-c", line],
                cwd=CHECKOUT,
                env=environment | {"HEDWIG_HUB": address, "PATH": bin_folder},
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert (published.returncode, published.stdout.splitlines(), published.stderr) == (0, output, "")
    finally:
        hub.send_signal(signal.SIGINT)
        hub.communicate(timeout=60)
