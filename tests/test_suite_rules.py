"""Prove the rules of tests/conftest.py: long tests run only on request, and no test skips quietly.

Prove also that no test hides the errors of its tasks: a test that gathers exceptions must look at them.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

RULES = Path(__file__).with_name("conftest.py")
SETTINGS = RULES.parent.parent / "pyproject.toml"


def _run(folder: Path, tests: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest over one test module in a separate folder, under the project's settings and rules."""
    (folder / "conftest.py").write_text(RULES.read_text())
    (folder / "test_sample.py").write_text("import pytest\n" + tests)
    command = [sys.executable, "-m", "pytest", "-c", str(SETTINGS), "--rootdir", str(folder), "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, *arguments, str(folder)], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )


LONG_AND_SHORT = """
@pytest.mark.full
def test_long() -> None:
    pass

def test_short() -> None:
    pass
"""


def _hides_failures(node: ast.AST) -> bool:
    """Say whether a statement drops gathered exceptions, or suppresses the errors that a failed test raises."""
    if isinstance(node, ast.Expr):
        return any(each.arg == "return_exceptions" for each in ast.walk(node) if isinstance(each, ast.keyword))
    if isinstance(node, ast.With | ast.AsyncWith):
        calls = [item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call)]
        names = {ast.unparse(name) for call in calls if "suppress" in ast.unparse(call.func) for name in call.args}
        return not names.isdisjoint({"AssertionError", "Exception", "BaseException"})
    return False


@pytest.mark.parametrize(
    ("statement", "hides"),
    [
        ("await gather(a, b, return_exceptions=True)", True),
        ("await wait_for(gather(a, b, return_exceptions=True), 1)", True),
        ("outcomes = await gather(a, b, return_exceptions=True)", False),
        ("with contextlib.suppress(AssertionError, OSError): pass", True),
        ("with suppress(Exception): pass", True),
        ("with suppress(OSError): pass", False),
    ],
)
def test_statement_that_hides_failures_is_known(statement: str, hides: bool) -> None:
    module = compile(statement, "", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    assert any(map(_hides_failures, ast.walk(module))) == hides


def test_no_test_hides_failures() -> None:
    folder = RULES.parent
    hidden = [
        f"{path.relative_to(folder)}:{node.lineno}"
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.stmt) and _hides_failures(node)
    ]
    assert not hidden, "look at what was gathered, or end tasks with tests.support.endings.end_all"


def test_long_tests_are_left_out_and_counted(tmp_path: Path) -> None:
    run = _run(tmp_path, LONG_AND_SHORT)
    assert run.returncode == 0, run.stdout
    assert "1 long tests left out" in run.stdout
    assert "1 passed, 1 deselected" in run.stdout


def test_full_runs_the_long_tests_too(tmp_path: Path) -> None:
    run = _run(tmp_path, LONG_AND_SHORT, "--full")
    assert run.returncode == 0, run.stdout
    assert "2 passed" in run.stdout
    assert "left out" not in run.stdout


@pytest.mark.parametrize(
    ("named", "runs_without_servers", "is_fast"),
    [
        ("", True, True),
        ("import subprocess\n", True, False),
        ("from hedwig.cli.dev import DevServers\n", False, False),
        ("pytestmark = pytest.mark.servers\n", False, False),
    ],
    ids=["nothing", "a process", "servers", "servers, by the mark"],
)
def test_tiers_are_told_apart_by_what_a_module_names(
    tmp_path: Path, named: str, runs_without_servers: bool, is_fast: bool
) -> None:
    for option, runs in (("--without-servers", runs_without_servers), ("--fast", is_fast)):
        run = _run(tmp_path, f"{named}def test_it() -> None:\n    pass\n", option)
        assert ("1 passed" in run.stdout, "1 tests left out that need servers" in run.stdout) == (runs, not runs)


def test_what_lacks_the_mark_finds_no_java(tmp_path: Path) -> None:
    module = "from hedwig.cli.dev.servers.java import find_java\n\ndef test_it() -> None:\n    find_java()\n"
    run = _run(tmp_path, module, "--without-servers")
    assert run.returncode == 1
    assert "has no bin/java" in run.stdout


SKIP_IN_A_FIXTURE = """
@pytest.fixture
def server() -> None:
    pytest.skip("no server")

def test_it(server: None) -> None:
    pass
"""


@pytest.mark.parametrize(
    "tests",
    [
        'def test_it() -> None:\n    pytest.skip("no server")\n',
        '@pytest.mark.skip(reason="no server")\ndef test_it() -> None:\n    pass\n',
        SKIP_IN_A_FIXTURE,
        'pytest.importorskip("no_such_module", reason="no server")\n',
    ],
    ids=["in the test", "by a mark", "in a fixture", "a whole module"],
)
def test_skip_is_a_failure(tmp_path: Path, tests: str) -> None:
    run = _run(tmp_path, tests)
    assert run.returncode != 0
    assert "no server - refused: " in run.stdout


def test_docker_tests_may_skip_and_the_run_says_so(tmp_path: Path) -> None:
    run = _run(tmp_path, '@pytest.mark.docker\ndef test_it() -> None:\n    pytest.skip("no Docker")\n')
    assert run.returncode == 0, run.stdout
    assert "1 tests skipped because Docker is not available" in run.stdout


def test_hanging_test_fails_with_a_dump(tmp_path: Path) -> None:
    run = _run(
        tmp_path, "import threading\n\ndef test_it() -> None:\n    threading.Event().wait()\n", "-o", "timeout=1"
    )
    assert run.returncode == 1
    assert "Timeout (>1.0s)" in run.stdout
    assert "threading.Event().wait()" in run.stdout


def test_process_that_does_not_end_is_ended_with_a_dump(tmp_path: Path) -> None:
    stubborn = """
import threading

def test_it() -> None:
    threading.Thread(target=threading.Event().wait).start()
"""
    run = _run(tmp_path, stubborn, "-o", "exit_deadline_s=1")
    assert "1 passed" in run.stdout
    assert run.returncode == 1
    assert "in _shutdown" in run.stderr
