"""Prove that all programs in documents pass strict types, as the code of a user who installed the package.

Other tests run them: those named test_docs, beside the tests of what a document is about.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.support.checkout import CHECKOUT

PROGRAM: Final = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
TINY: Final = CHECKOUT / "tests" / "metadata" / "tiny"
"""The backend of a third party, which two of the programs test."""


def test_programs_pass_strict_types(tmp_path: Path) -> None:
    shutil.copytree(TINY, tmp_path / TINY.name)
    names = []
    for page in (CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").rglob("*.md"))):
        for number, text in enumerate(PROGRAM.findall(page.read_text())):
            names.append(f"{page.stem}_{number}.py".replace("-", "_"))
            (tmp_path / names[-1]).write_text(text)
    assert len(names) == 23
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", "", "--follow-imports", "silent", *names],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
