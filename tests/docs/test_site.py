"""Prove that the documents make a site: each link has a target, and each docstring of the API can be parsed."""

import re
import subprocess
import sys
from pathlib import Path

from tests.support.checkout import CHECKOUT


def test_the_site_is_made_without_a_warning_and_has_the_api(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "docs", "-d", str(tmp_path / "read")]
    made = subprocess.run([*command, ".", str(tmp_path / "site")], cwd=CHECKOUT, capture_output=True, text=True)
    assert (made.returncode, made.stderr) == (0, "")
    first = (tmp_path / "site" / "index.html").read_text()
    (page,) = re.findall(r'href="([^"]+)"', first)
    assert (tmp_path / "site" / page).is_file()
    api = (tmp_path / "site" / "docs" / "reference" / "api.html").read_text()
    for name in ("hedwig.client.HedwigClient.publish", "hedwig.metadata.change", "hedwig.errors.BadVersionError"):
        assert f'id="{name}"' in api, name
