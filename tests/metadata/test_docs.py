"""Prove that every example of docs/explanation/metadata.md runs, and prints what the page says."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.checkout import CHECKOUT

PAGE: Final = (CHECKOUT / "docs" / "explanation" / "metadata.md").read_text()
EXAMPLES: Final = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)


def test_every_example_says_what_it_prints() -> None:
    assert len(EXAMPLES) == 2


@pytest.mark.parametrize(("text", "printed"), EXAMPLES)
def test_example(text: str, printed: str, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", text],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, printed, "")
