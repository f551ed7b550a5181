"""Prove that the client library works without extras, and that one line names what anything else lacks.

The test installs the wheel as users do, in an environment that has protobuf and nothing else.
"""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

import pytest

from hedwig.errors import ConfigurationError, MissingExtraError
from hedwig.extras import needed
from tests.hub.support.running import RunningHub
from tests.support.checkout import CHECKOUT

PROJECT: Final = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
EXTRAS: Final[dict[str, list[str]]] = PROJECT["optional-dependencies"]
PROGRAMS: Final = {
    "hedwig-admin": "cli",
    "hedwig-bench": "benchmarks",
    "hedwig-hub": "hub",
    "hedwig-pipeline": "spark",
}
CONVERSATION: Final = """
import sys
from hedwig import BlockingClient
with BlockingClient(sys.argv[1]) as client, client.subscribe("news", "reader") as subscription:
    client.publish("news", b"hello")
    print(next(subscription).body)
"""


def _run(*command: str | Path, status: int = 0) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == status, ran.stdout + ran.stderr
    return ran


@pytest.fixture(scope="module")
def bare(wheel_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The executables of an environment with the wheel and protobuf, without extras."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder)
    (site,) = folder.glob("lib/python*/site-packages")
    # Copied from the environment of the tests, so nothing is downloaded.
    protobuf = distribution("protobuf")
    for file in protobuf.files or ():
        target = site / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(str(protobuf.locate_file(file)), target)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", folder / "bin" / "python")
    _run(*pip, "install", "--no-index", "--no-deps", wheel_file)
    assert "No broken requirements" in _run(*pip, "check").stdout
    return folder / "bin"


def test_without_extras_it_needs_protobuf_alone(wheel_file: Path) -> None:
    with zipfile.ZipFile(wheel_file) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(wheel.read(name))
    assert metadata["Name"] == "hedwig-pubsub"
    required = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert [re.split(r"[<>=!~ ]", line)[0] for line in required] == ["protobuf"]


def test_client_publishes_and_subscribes(bare: Path, tmp_path: Path) -> None:
    with RunningHub(tmp_path) as hub:
        assert _run(bare / "python", "-c", CONVERSATION, hub.address).stdout == "b'hello'\n"


def test_version_is_that_of_the_distribution(bare: Path) -> None:
    assert _run(bare / "python", "-c", "import hedwig; print(hedwig.__version__)").stdout.strip() == PROJECT["version"]


def test_every_command_is_looked_at() -> None:
    assert PROGRAMS.keys() == PROJECT["scripts"].keys()


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_command_names_its_extra_and_ends_with_2(bare: Path, program: str, argument: str) -> None:
    ran = _run(bare / program, argument, status=2)
    (line,) = ran.stderr.splitlines()
    assert line.startswith(f"error: {program} needs ")
    assert line.endswith(f"; in the checkout of hedwig: pip install '.[{PROGRAMS[program]}]'")
    assert ran.stdout == ""


@pytest.mark.parametrize(
    ("statement", "lacks", "extra"),
    [
        ("from hedwig import open_metadata", "hedwig.metadata needs msgpack", "metadata"),
        ("from hedwig.metadata import open_metadata", "hedwig.metadata needs msgpack", "metadata"),
        ("from hedwig.testing import HubInProcess", "hedwig.metadata needs msgpack", "metadata"),
        ("from hedwig.zookeeper import Bridge", "hedwig.zookeeper needs kazoo", "zookeeper"),
        ("import pyspark_hedwig", "the data source needs pyarrow", "spark"),
    ],
)
def test_name_that_is_imported_names_its_extra(bare: Path, statement: str, lacks: str, extra: str) -> None:
    ran = _run(bare / "python", "-c", statement, status=1)
    assert ran.stderr.splitlines()[-1] == (
        f"hedwig.errors.MissingExtraError: {lacks}; in the checkout of hedwig: pip install '.[{extra}]'"
    )


def test_missing_extra_is_an_error_of_imports_and_of_ours() -> None:
    with pytest.raises(ImportError) as caught, needed("thrift", "this needs", instead="do without"):
        import no_such_package.part  # type: ignore[import-not-found]  # noqa: F401
    assert isinstance(caught.value, MissingExtraError)
    assert isinstance(caught.value, ConfigurationError)
    assert str(caught.value) == (
        "this needs no_such_package; in the checkout of hedwig: pip install '.[thrift]'; or do without"
    )


def test_module_of_ours_that_is_missing_is_a_bug() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'hedwig\.no_such_module'"), needed("hub", "x"):
        import hedwig.no_such_module  # type: ignore[import-not-found]  # noqa: F401


def _named_extras() -> Iterator[tuple[str, str]]:
    """Yield each extra that the code names, with its location."""
    for folder in ("hedwig", "metadata", "hub", "operations", "cli", "pipeline", "benchmarks", "pyspark_hedwig"):
        for path in (CHECKOUT / folder).rglob("*.py"):
            for call in ast.walk(ast.parse(path.read_bytes())):
                if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
                    continue
                index = {"needed": 0, "starting": 1, "missing_extra": 1}.get(call.func.id)
                if index is not None and isinstance(named := call.args[index], ast.Constant):
                    for extra in str(named.value).split(","):
                        yield extra, f"{path.relative_to(CHECKOUT)}:{call.lineno}"


def test_extras_that_are_named_exist() -> None:
    named = list(_named_extras())
    assert {extra for extra, _ in named} >= {"bookkeeper", "zookeeper", *PROGRAMS.values()}
    assert [(extra, location) for extra, location in named if extra not in EXTRAS] == []


def test_all_has_all_but_what_is_compiled() -> None:
    (everything,) = EXTRAS["all"]
    match = re.fullmatch(r"hedwig-pubsub\[(.*)\]", everything)
    assert match is not None
    assert set(match[1].split(",")) == EXTRAS.keys() - {"all", "dev", "kerberos"}
