"""Prove that the README is right: each of its commands runs here or in the tests named below.

Its program runs beside those of docs/how-to/client.md (tests/client/test_docs.py), its installs with the packages
(tests/packaging), its cluster with Docker (tests/docker).
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


def test_a_hub_in_two_commands(tmp_path: Path) -> None:
    lines = [line.strip() for line in _section("A hub in two commands").splitlines() if line.startswith("    ")]
    run, publish, *printed = lines
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HEDWIG_", "XDG_"))}
    environment |= {"HOME": str(tmp_path), "HEDWIG_HUB_PORT": "0", "HEDWIG_HUB_ADMIN_PORT": "0"}
    hub = subprocess.Popen(
        run.removeprefix("$ "),
        cwd=CHECKOUT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert hub.stdout is not None
        (address,) = next(filter(None, (re.findall(r"serving ([\d.]+:\d+)", line) for line in hub.stdout)))
        published = subprocess.run(
            ["bash", "-c", publish.removeprefix("$ ")],
            cwd=CHECKOUT,
            env=environment | {"HEDWIG_HUB": address},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (published.returncode, published.stdout.splitlines(), published.stderr) == (0, printed, "")
    finally:
        hub.send_signal(signal.SIGINT)
        hub.communicate(timeout=60)
