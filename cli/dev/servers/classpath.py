"""Class paths of the servers. Maven resolves them from the poms of this package, and a cache keeps them."""

import hashlib
import importlib.resources
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from hedwig.cli.dev.errors import DevError
from hedwig.cli.dev.locks import locked

__all__ = ["CLASSPATHS", "ClasspathCache", "user_cache"]

CLASSPATHS = ("zookeeper", "kerby", "hbase", "hbase-hadoop3", "hedwig43", "bookkeeper")

# Enough for the first download of all HBase jars over a slow line. Later runs take seconds.
_MAVEN_TIMEOUT_S = 900


def user_cache() -> Path:
    """Return the directory for files that can be made again: XDG_CACHE_HOME/hedwig, or ~/.cache/hedwig."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "hedwig"


class ClasspathCache:
    """One file for each pom, named by its hash, with the class path from Maven. All directories of servers share it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def classpath(self, which: str, progress: Callable[[str], None]) -> str:
        """Return the class path `which` (one of CLASSPATHS). Call Maven only if the cache has no usable one.

        Raises: DevError - an unknown name, no Maven, or Maven failed (its last lines are in `log_tail`).
        """
        if which not in CLASSPATHS:
            raise DevError(f"there is no class path {which!r}: choose one of {', '.join(CLASSPATHS)}")
        pom = importlib.resources.files("hedwig.cli.dev").joinpath("poms", f"{which}.xml").read_bytes()
        kept = self._directory / f"{which}-{hashlib.sha256(pom).hexdigest()[:16]}.txt"
        jars = _usable(kept)
        if jars is not None:
            return jars
        with locked(self._directory / f"{which}.lock", _MAVEN_TIMEOUT_S):
            jars = _usable(kept)
            if jars is None:
                jars = _resolve(which, pom, progress)
                partial = kept.with_suffix(".partial")
                partial.write_text(jars)
                partial.replace(kept)
        return jars


def _usable(kept: Path) -> str | None:
    """Return the class path in the file; None if one of its jars is gone, as after cleaning a Maven repository."""
    try:
        content = kept.read_text().strip()
    except FileNotFoundError:
        return None
    return content if content and all(Path(jar).exists() for jar in content.split(os.pathsep)) else None


def _resolve(which: str, pom: bytes, progress: Callable[[str], None]) -> str:
    maven = shutil.which("mvn")
    if maven is None:
        raise DevError(
            f"cannot fetch the jars of {which}: Maven (mvn) is not installed; run `apt-get install -y maven`"
        )
    progress(f"class path {which}: fetching its jars with Maven (the first time this may take two minutes)")
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch, "pom.xml").write_bytes(pom)
        out = Path(scratch, "classpath")
        command = [
            maven,
            "-B",
            "-q",
            "dependency:build-classpath",
            f"-Dmdep.outputFile={out}",
            "-Dmdep.includeScope=runtime",
        ]
        try:
            ran = subprocess.run(
                command,
                cwd=scratch,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=_MAVEN_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired as exc:
            raise DevError(
                f"cannot fetch the jars of {which}: Maven took over {_MAVEN_TIMEOUT_S} s; check the network and repeat"
            ) from exc
        if ran.returncode != 0 or not out.exists():
            tail = tuple((ran.stdout + ran.stderr).strip().splitlines()[-15:])
            raise DevError(
                f"cannot fetch the jars of {which}: Maven failed; check the network and Maven's settings", tail
            )
        return out.read_text().strip()
