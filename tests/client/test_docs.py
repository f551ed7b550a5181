"""Prove that every example of docs/how-to/client.md, and that of the README, runs and prints what the page says."""

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

import pytest

from tests.client.support.tls import TlsHub
from tests.support.checkout import CHECKOUT

PAGE: Final = "\n".join((CHECKOUT / page).read_text() for page in ("docs/how-to/client.md", "README.md"))
EXAMPLES: Final = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsHub]:
    with TlsHub(tmp_path_factory.mktemp("docs")) as started:
        assert isinstance(started, TlsHub)
        yield started


def test_every_example_says_what_it_prints() -> None:
    assert len(EXAMPLES) == PAGE.count("```python") == 13


@pytest.mark.parametrize(("text", "printed"), EXAMPLES)
def test_example(hub: TlsHub, text: str, printed: str) -> None:
    here = text.replace('"127.0.0.1:4080:9876"', repr(hub.tls_address)).replace('"127.0.0.1:4080"', repr(hub.address))
    here = here.replace('"hub-certificate.pem"', repr(str(hub.certificate)))
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", here],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, printed, "")
