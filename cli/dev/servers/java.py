"""The Java virtual machine: finds one that is new enough, and has the flags that our servers need."""

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from hedwig.cli.dev.errors import DevError

__all__ = ["find_java", "jvm_flags"]

_INSTALL = "run `apt-get install -y openjdk-17-jdk-headless`, or let JAVA_HOME name a JDK of 17 or later"
_OLDEST = 17

_OPENS = (
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.reflect",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/jdk.internal.util.random",
    "java.base/sun.nio.ch",
)
_EXPORTS = ("java.base/jdk.internal.misc", "java.base/sun.net.dns", "java.base/sun.net.util")


def find_java() -> str:
    """Return the path of the java program: of JAVA_HOME if that is set, else of PATH.

    Raises: DevError - there is none, or it is older than the servers need.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    if java is None:
        where = f"JAVA_HOME={home} has no bin/java" if home else "java is not on the PATH"
        raise DevError(f"cannot run Java servers: {where}; {_INSTALL}")
    version = _version(java)
    if version < _OLDEST:
        raise DevError(f"cannot run Java servers: {java} is Java {version}, they need {_OLDEST}; {_INSTALL}")
    return java


@functools.cache
def _version(java: str) -> int:
    try:
        shown = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60).stderr
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise DevError(f"cannot run Java servers: {java} does not start ({exc}); {_INSTALL}") from exc
    match = re.search(r'version "(?:1\.)?(\d+)', shown)
    if match is None:
        raise DevError(f"cannot run Java servers: {java} -version prints no version that dev reads; {_INSTALL}")
    return int(match.group(1))


def jvm_flags(heap_mb: int, hosts_file: Path | None = None) -> list[str]:
    """Return flags for a small server that starts quickly and stays on loopback, with what HBase needs on Java 17.

    `hosts_file` becomes the only source of host names, since the servers must not depend on the name of this machine.
    """
    flags = [f"-Xmx{heap_mb}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true"]
    if hosts_file is not None:
        flags.append(f"-Djdk.net.hosts.file={hosts_file}")
    for package in _OPENS:
        flags += ["--add-opens", f"{package}=ALL-UNNAMED"]
    for package in _EXPORTS:
        flags += ["--add-exports", f"{package}=ALL-UNNAMED"]
    return flags
