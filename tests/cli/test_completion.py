"""Prove that shells complete commands, options, formats, contexts, topics and hubs, and never show an error."""

import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from hedwig.exit_codes import ExitCode
from tests.cli.support.admin import DEADLINE_S, Admin, Ran
from tests.cli.support.terminal import Terminal
from tests.support.checkout import CHECKOUT

_AS_INSTALLED = "import sys; sys.argv[0] = 'hedwig-admin'; from hedwig.cli.main import main; main()"


def _completed(admin: Admin, *words: str, **environment: str) -> list[str]:
    """Return the candidates that bash gets for the last of `words`."""
    asked = {"COMP_WORDS": shlex.join(("hedwig-admin", *words)), "COMP_CWORD": str(len(words))}
    ran = _run_with(admin, _AS_INSTALLED, {"_HEDWIG_ADMIN_COMPLETE": "bash_complete", **asked, **environment})
    assert ran.err == ""
    return [line.partition(",")[2] for line in ran.out.splitlines() if line]


def _run_with(admin: Admin, program: str, environment: Mapping[str, str]) -> Ran:
    made = Admin(admin.directory, admin.url)
    made.environment = {**admin.environment, **environment}
    return made.run_apart(program=(sys.executable, "-c", program))


def test_commands_and_their_verbs(admin: Admin) -> None:
    assert {"topic", "config", "completion"} <= set(_completed(admin, ""))
    assert _completed(admin, "topic", "cr") == ["create"]
    assert _completed(admin, "config", "context", "sa") == ["save"]
    assert "--watch" in _completed(admin, "topic", "show", "--w")


def test_formats_shells_and_settings(admin: Admin) -> None:
    assert _completed(admin, "topic", "list", "-o", "") == ["table", "json", "ndjson", "csv", "yaml"]
    assert _completed(admin, "completion", "") == ["bash", "zsh", "fish"]
    of_tls = ["tls", "tls_ca", "tls_insecure", "tls_certificate"]
    assert _completed(admin, "config", "context", "save", "x", "--unset", "tls") == of_tls


def test_topics_are_the_first_that_fit(admin: Admin) -> None:
    admin.insert_topics(1000)
    admin.done("topic", "create", "news")
    assert _completed(admin, "topic", "show", "ne") == ["news"]
    assert len(_completed(admin, "publish", "topic-")) == 50
    other = f"sqlite://{admin.directory}/other.db"
    admin.done("topic", "create", "nest", "--metadata", other)
    assert _completed(admin, "topic", "show", "--metadata", other, "ne") == ["nest"]


def test_contexts_and_the_hubs_that_they_name(admin: Admin) -> None:
    admin.done("config", "context", "save", "eu", "--hub", "eu:4080")
    admin.done("config", "context", "save", "us", "--hub", "us:4080")
    assert _completed(admin, "config", "context", "use", "") == ["eu", "us"]
    assert _completed(admin, "topic", "list", "--context", "u") == ["us"]
    assert _completed(admin, "publish", "--hub", "e") == ["eu:4080"]
    assert _completed(admin, "hub", "show", "") == ["eu:4080", "us:4080"]


def test_topics_are_those_of_the_context(admin: Admin) -> None:
    other = f"sqlite://{admin.directory}/other.db"
    admin.done("topic", "create", "nest", "--metadata", other)
    admin.done("config", "context", "save", "other", "--metadata", other, "--use")
    assert _completed(admin, "topic", "show", "ne", HEDWIG_METADATA="") == ["nest"]


@contextmanager
def _mute_server() -> Iterator[str]:
    """Listen, and never answer."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.parametrize("scheme", ["zookeeper", "hbase", "hbase+thrift"])
def test_a_store_that_does_not_answer_is_not_waited_for(admin: Admin, scheme: str) -> None:
    with _mute_server() as address:
        assert _completed(admin, "topic", "show", "n", HEDWIG_METADATA=f"{scheme}://{address}/hedwig/x") == []


def test_a_cluster_that_does_not_answer_is_not_waited_for(admin: Admin) -> None:
    admin.done("config", "context", "save", "eu", "--hub", "eu:4080")
    with _mute_server() as address:
        completed = _completed(admin, "hub", "show", "", HEDWIG_CLUSTER=f"zookeeper://{address}/hedwig/x")
    assert completed == ["eu:4080"]


def test_what_makes_no_sense_completes_to_nothing(admin: Admin) -> None:
    assert _completed(admin, "topic", "show", "n", HEDWIG_METADATA="nonsense") == []
    assert _completed(admin, "topic", "show", "n", HEDWIG_TIMEOUT="nonsense") == []
    file = admin.directory / "config" / "hedwig" / "admin.toml"
    file.parent.mkdir(parents=True)
    file.write_text("broken")
    for words in (("topic", "show", "n"), ("config", "context", "use", ""), ("hub", "show", "")):
        assert _completed(admin, *words) == []


def test_completion_makes_no_store(admin: Admin) -> None:
    assert _completed(admin, "topic", "show", "n") == []
    assert _completed(admin, "topic", "show", "n", HEDWIG_METADATA="") == []
    assert list(admin.directory.iterdir()) == []


def test_only_what_is_completed_is_loaded(admin: Admin) -> None:
    """Users would notice at every key a client library that takes half a second to load."""
    seen = f"import os, sys; os._exit = lambda _: print(*sys.modules, file=sys.stderr); {_AS_INSTALLED}"
    words = {"_HEDWIG_ADMIN_COMPLETE": "bash_complete", "COMP_WORDS": "hedwig-admin config sh", "COMP_CWORD": "2"}
    loaded = set(_run_with(admin, seen, words).err.split())
    assert "hedwig.cli.commands.config" in loaded
    unwanted = {
        "hedwig.cli.commands.topic.group",
        "hedwig.cli.commands.hub.group",
        "hedwig.cli.commands.messages.publish",
        "hedwig.cli.dev",
        "hedwig.client",
        "hedwig.metadata",
        "kazoo",
        "ssl",
    }
    assert loaded.isdisjoint(unwanted), loaded & unwanted


# --------------------------------------------------------------------------------------------------------- the scripts


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_is_printed_and_asks_the_installed_command(admin: Admin, shell: str) -> None:
    script = admin.done("completion", shell).out
    assert f"_HEDWIG_ADMIN_COMPLETE={shell}_complete" in script
    assert " hedwig-admin" in script


def test_a_shell_that_nobody_knows_is_refused(admin: Admin) -> None:
    ran = admin.run("completion", "tcsh")
    assert (ran.code, "'fish'" in ran.err) == (ExitCode.USAGE, True)


def test_zsh_and_fish_are_answered_in_their_way(admin: Admin) -> None:
    for shell, answer in (("zsh", ["plain", "create", "Create topics"]), ("fish", ["plain", "create\tCreate topics"])):
        ran = admin.run_apart(
            program=(sys.executable, "-c", _AS_INSTALLED),
            _HEDWIG_ADMIN_COMPLETE=f"{shell}_complete",
            COMP_WORDS="hedwig-admin topic cr",
            COMP_CWORD="cr" if shell == "fish" else "2",
        )
        shown = ran.out.replace(",", "\n", 1) if shell == "fish" else ran.out
        for line, wanted in zip(shown.splitlines(), answer, strict=True):
            assert line.startswith(wanted)


@pytest.fixture
def installed(admin: Admin, tmp_path: Path) -> Mapping[str, str]:
    """The environment in which a shell finds the command, with a store of three topics."""
    admin.done("topic", "create", "news", "we,at", "weather")
    program = tmp_path / "bin" / "hedwig-admin"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\n{_AS_INSTALLED}\n")
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:{os.environ['PATH']}", "PYTHONPATH": str(CHECKOUT)}


def _in_shell(admin: Admin, installed: Mapping[str, str], *command: str) -> list[str]:
    """Return the lines that a shell writes when it runs `command`; it must write no error."""
    assert shutil.which(command[0]), f"{command[0]} is missing: ./test installs it"
    ran = subprocess.run(
        command,
        env={**os.environ, **admin.environment, **installed},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    assert ran.stderr == ""
    return ran.stdout.splitlines()


def test_bash_completes_with_the_script(admin: Admin, installed: Mapping[str, str]) -> None:
    asked = """
        eval "$(hedwig-admin completion bash)"
        complete -p hedwig-admin
        COMP_WORDS=(hedwig-admin topic show wea) COMP_CWORD=3
        _hedwig_admin_completion hedwig-admin
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    registered, *words = _in_shell(admin, installed, "bash", "--norc", "-c", asked)
    assert registered.endswith("-F _hedwig_admin_completion hedwig-admin")
    assert words == ["weather"]


def test_fish_completes_with_the_script(admin: Admin, installed: Mapping[str, str]) -> None:
    for typed, completed in (
        ("topic cr", ["create"]),
        ("topic show --w", ["--watch"]),
        ("topic show we", ["we,at", "weather"]),
        ("topic list -o nd", ["ndjson"]),
        ("topic show nothing-like-it", []),
    ):
        asked = f"hedwig-admin completion fish | source; complete -C 'hedwig-admin {typed}'"
        lines = _in_shell(admin, installed, "fish", "--no-config", "-c", asked)
        assert [line.partition("\t")[0] for line in lines] == completed


def test_zsh_completes_with_the_script_while_somebody_types(
    admin: Admin, installed: Mapping[str, str], tmp_path: Path
) -> None:
    assert shutil.which("zsh"), "zsh is missing: ./test installs it"
    # As the help advises: in ~/.zshrc, after compinit.
    lines = ("autoload -Uz compinit", "compinit -u -D", 'eval "$(hedwig-admin completion zsh)"', "PS1='ready: '")
    (tmp_path / ".zshrc").write_text("".join(f"{line}\n" for line in lines))
    zsh = ("zsh", "-o", "no_global_rcs", "-i")
    with Terminal(admin, program=zsh, PATH=installed["PATH"], ZDOTDIR=str(tmp_path)) as terminal:
        for typed, completed in (
            ("topic cr", "topic create"),
            ("topic show --w", "topic show --watch"),
            ("topic show wea", "topic show weather"),
            ("topic show we,", "topic show we,at"),
            ("topic list -o nd", "topic list -o ndjson"),
        ):
            terminal.wait_for(lambda screen: screen[0].strip() == "ready:", "an empty line")
            terminal.press("-l", f"hedwig-admin {typed}")
            terminal.press("Tab")
            terminal.wait_for_line(f"ready: hedwig-admin {completed}")
            terminal.press("C-u", "C-l")
        terminal.wait_for(lambda screen: screen[0].strip() == "ready:", "an empty line")
        # If there are several candidates, zsh shows each with its description.
        terminal.press("-l", "hedwig-admin topic s")
        terminal.press("Tab")
        terminal.wait_for_line("stats")
        terminal.press("C-u", "C-d")
        terminal.wait_for_line("ended 0")
