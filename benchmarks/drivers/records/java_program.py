"""The generator over HBase's own Java client. Maven builds it from the sources in this package; the build is kept."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.machine.checkout import CHECKOUT
from hedwig.cli.dev.locks import locked
from hedwig.cli.dev.servers.classpath import user_cache
from hedwig.cli.dev.servers.java import find_java, jvm_flags

__all__ = ["java_command", "jvm_words"]

_SOURCES: Final = CHECKOUT / "hedwig" / "benchmarks" / "java"
_PROGRAM: Final = "hedwig.benchmarks.CasGenerator"
_CLASSES: Final = "classes"
_CLASSPATH: Final = "classpath"
_MAVEN_S: Final = 900.0
_HEAP_MB: Final = 1024
_OF_SMALL_SERVERS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Flags that make our dev servers start quickly. The client does without them, to run as fast as it can."""
_LOG_SETTINGS: Final = """\
log4j.rootLogger=WARN, console
log4j.logger.org.apache.hadoop.util.NativeCodeLoader=ERROR
log4j.logger.org.apache.hadoop.hbase.client.ZKConnectionRegistry=ERROR
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%-5p %c{1}: %m%n
"""


def java_command(progress: Callable[[str], None]) -> list[str]:
    """Return the command that runs the generator; build the generator first if there is no build yet.

    Raises: BenchmarkError - no Maven, or it failed; DevError - no JDK that is new enough.
    """
    java = find_java()
    files = sorted(path for path in _SOURCES.rglob("*") if path.suffix in (".java", ".xml"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files) + _LOG_SETTINGS.encode()).hexdigest()
    cache = user_cache() / "java"
    built = cache / f"cas-{digest[:16]}"
    with locked(cache / "cas.lock", _MAVEN_S):
        if not _is_usable(built):
            shutil.rmtree(built, ignore_errors=True)
            _build(built, progress)
    jars = f"{built / _CLASSES}{os.pathsep}{(built / _CLASSPATH).read_text()}"
    return [java, *jvm_words(), "-cp", jars, _PROGRAM]


def jvm_words() -> list[str]:
    """Return the flags of the client's virtual machine: the defaults, except for the size of the heap."""
    flags = [flag for flag in jvm_flags(_HEAP_MB) if flag not in _OF_SMALL_SERVERS]
    return [f"-Xms{_HEAP_MB}m", *flags]


def _is_usable(built: Path) -> bool:
    """Say whether the generator was built and all its jars still exist; they go if the Maven repository is cleaned."""
    classpath = built / _CLASSPATH
    return classpath.exists() and all(Path(jar).exists() for jar in classpath.read_text().split(os.pathsep))


def _build(built: Path, progress: Callable[[str], None]) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise BenchmarkError("cannot build the Java client: Maven (mvn) is not installed: apt-get install -y maven")
    progress("building the Java client with Maven (the first time this may take two minutes)")
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch, "project")
        shutil.copytree(_SOURCES, project)
        classpath = project / _CLASSPATH
        goals = ["compiler:compile", "dependency:build-classpath"]
        options = [f"-Dmdep.outputFile={classpath}", "-Dmdep.includeScope=runtime"]
        try:
            ran = subprocess.run(
                [maven, "-B", "-q", *goals, *options],
                cwd=project,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=_MAVEN_S,
            )
        except subprocess.TimeoutExpired:
            raise BenchmarkError(f"cannot build the Java client: Maven took over {_MAVEN_S:.0f} s") from None
        if ran.returncode != 0 or not classpath.exists():
            said = [line for line in (ran.stdout + ran.stderr).splitlines() if "ERROR" in line] or ["it said nothing"]
            raise BenchmarkError(f"cannot build the Java client: Maven failed: {said[0]}")
        shutil.copytree(project / "target" / "classes", built / _CLASSES)
        (built / _CLASSES / "log4j.properties").write_text(_LOG_SETTINGS)
        (built / _CLASSPATH).write_text(classpath.read_text().strip())  # Last: with it the program counts as built.
