"""Prove where settings come from (flag, environment, saved context, default), and that contexts are kept whole."""

import multiprocessing
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from hedwig.cli.settings import contexts
from hedwig.cli.settings.configuration import SETTINGS
from hedwig.cli.settings.contexts import SavedContexts, changing_contexts
from hedwig.errors import OperationError
from hedwig.exit_codes import ExitCode
from tests.cli.support.admin import DEADLINE_S, Admin


def _file(admin: Admin) -> Path:
    return admin.directory / "config" / "hedwig" / "admin.toml"


def _settings(admin: Admin, *arguments: str, **environment: str) -> dict[str, tuple[Any, str]]:
    """Return what `config show` reports, by setting: value and source."""
    # The variable chooses JSON, and flags and `environment` of a test overrule it. A flag would appear as one more
    # source.
    ran = admin.run(*arguments, "config", "show", **{"HEDWIG_OUTPUT": "json", **environment})
    assert ran.code == 0, ran
    return {row["setting"]: (row["value"], row["source"]) for row in ran.json["settings"]}


def _save(admin: Admin, name: str, *arguments: str) -> None:
    admin.done("config", "context", "save", name, *arguments)


# ----------------------------------------------------------------------------------------------------- where from


@pytest.mark.parametrize(
    ("key", "saved", "environment", "flag"),
    [
        ("metadata", "sqlite:///saved", "sqlite:///environment", "sqlite:///flag"),
        ("timeout", 5.0, "6", "7"),
    ],
)
def test_flag_before_environment_before_context_before_default(
    admin: Admin, key: str, saved: Any, environment: str, flag: str
) -> None:
    variable = f"HEDWIG_{key.upper()}"
    admin.environment[variable] = ""
    default, source = _settings(admin)[key]
    assert (source, default is not None) == ("default", True)
    _save(admin, "prod", f"--{key}", str(saved), "--use")
    assert _settings(admin)[key] == (saved, "context prod")
    value, source = _settings(admin, **{variable: environment})[key]
    assert (str(value).removesuffix(".0"), source) == (environment, f"environment {variable}")
    value, source = _settings(admin, f"--{key}", flag, **{variable: environment})[key]
    assert (str(value).removesuffix(".0"), source) == (flag, "flag")


@pytest.mark.parametrize("key", SETTINGS)
def test_every_setting_can_be_saved_and_given_by_the_environment(admin: Admin, key: str, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("")
    value = {
        "metadata": "sqlite:///somewhere",
        "cluster": "zookeeper://z:2181/hedwig/eu",
        "stores_file": str(tmp_path / "ca.pem"),
        "hub": "h:4080:4443",
        "tls": "true",
        "tls_ca": str(tmp_path / "ca.pem"),
        "tls_insecure": "true",
        "tls_certificate": str(tmp_path / "ca.pem"),
        "user": "ann",
        "password_file": str(tmp_path / "ca.pem"),
        "admin": "h:4081",
        "admin_token_file": str(tmp_path / "ca.pem"),
        "plain_token": "true",
        "data": str(tmp_path),
        "bookkeeper": "zookeeper://z:2181/ledgers",
        "timeout": "5",
        "output": "json",
    }[key]
    flag = f"--{key.replace('_', '-')}"
    _save(admin, "one", *([flag] if value == "true" else [flag, value]))
    admin.environment["HEDWIG_METADATA"] = ""
    wanted = {"true": True, "5": 5.0}.get(value, value)
    nothing = {"HEDWIG_OUTPUT": ""} if key == "output" else {}
    assert _settings(admin, "--context", "one", **nothing)[key] == (wanted, "context one")
    assert _settings(admin, **{f"HEDWIG_{key.upper()}": value})[key] == (wanted, f"environment HEDWIG_{key.upper()}")


def test_context_is_chosen_by_flag_then_environment_then_use(admin: Admin) -> None:
    for name in ("one", "two", "three"):
        _save(admin, name, "--timeout", str(len(name) * 10))
    assert _settings(admin)["context"] == (None, "default")
    admin.done("config", "context", "use", "one")
    assert _settings(admin)["context"] == ("one", "config context use")
    assert _settings(admin, HEDWIG_CONTEXT="two")["context"] == ("two", "environment HEDWIG_CONTEXT")
    settings = _settings(admin, "--context", "three", HEDWIG_CONTEXT="two")
    assert settings["context"] == ("three", "flag")
    assert settings["timeout"] == (50.0, "context three")


def test_commands_go_by_the_context(admin: Admin, tmp_path: Path) -> None:
    other = f"sqlite://{tmp_path}/other.db"
    admin.done("topic", "create", "there", "--metadata", other)
    _save(admin, "other", "--metadata", other, "-o", "ndjson")
    admin.environment["HEDWIG_METADATA"] = ""
    assert admin.done("topic", "list", "--context", "other").rows == [{"topic": "there"}]
    assert admin.done("topic", "list").out == "TOPIC\n"
    _save(admin, "lost", "--hub", "127.0.0.1:1")
    admin.done("config", "context", "use", "lost")
    assert "127.0.0.1:1" in admin.run("publish", "news", "x").err
    assert "127.0.0.1:2" in admin.run("publish", "news", "x", "--hub", "127.0.0.1:2").err
    _save(admin, "lost", "--cluster", "zookeeper://127.0.0.1:1/hedwig/eu", "--timeout", "1")
    ran = admin.run("hub", "list")
    assert (ran.code, "zookeeper://127.0.0.1:1/hedwig/eu" in ran.err) == (ExitCode.UNAVAILABLE, True)


def test_metadata_store_is_the_cluster_if_it_is_a_zookeeper(admin: Admin) -> None:
    url = "zookeeper://z:2181/hedwig/eu"
    assert _settings(admin, HEDWIG_METADATA=url)["cluster"] == (url, "the metadata store")
    assert _settings(admin)["cluster"] == (None, "default")


@pytest.mark.parametrize(
    ("saved", "environment", "wanted"),
    [
        (["--tls-insecure"], {}, (True, None, True)),
        (["--tls-insecure"], {"HEDWIG_TLS_CA": "/ca"}, (True, "/ca", False)),
        (["--tls-insecure"], {"HEDWIG_TLS": "1"}, (True, None, False)),
        (["--tls-insecure"], {"HEDWIG_TLS": "no"}, (False, None, False)),
        (["--tls-insecure"], {"HEDWIG_TLS_INSECURE": "no"}, (False, None, False)),
        (["--tls-ca", "ca.pem"], {"HEDWIG_TLS": "1"}, (True, "ca.pem", False)),
        (["--tls-ca", "ca.pem"], {"HEDWIG_TLS_INSECURE": "1"}, (True, None, True)),
        (["--tls-ca", "ca.pem"], {}, (True, "ca.pem", False)),
        (["--no-tls"], {"HEDWIG_TLS_CA": "/ca"}, (True, "/ca", False)),
    ],
)
def test_settings_of_tls_that_stand_nearer_overrule_those_further_away(
    admin: Admin,
    saved: list[str],
    environment: dict[str, str],
    wanted: tuple[bool, str | None, bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(admin.directory)
    (admin.directory / "ca.pem").write_text("")
    _save(admin, "one", *saved, "--use")
    settings = _settings(admin, **environment)
    authority = settings["tls_ca"][0]
    if wanted[1] == "ca.pem":
        assert authority == str(admin.directory / "ca.pem")
        authority = "ca.pem"
    assert (settings["tls"][0], authority, settings["tls_insecure"][0]) == wanted


def test_settings_of_tls_that_contradict_each_other_are_refused(admin: Admin) -> None:
    ran = admin.run("config", "show", HEDWIG_TLS_INSECURE="1", HEDWIG_TLS="0")
    assert (ran.code, "contradict" in ran.err) == (ExitCode.USAGE, True)


@pytest.mark.parametrize("key", ["timeout", "output", "tls"])
def test_environment_that_makes_no_sense_is_refused(admin: Admin, key: str) -> None:
    ran = admin.run("config", "show", **{f"HEDWIG_{key.upper()}": "nonsense"})
    assert (ran.code, len(ran.err.splitlines())) == (ExitCode.USAGE, 1)
    assert f"HEDWIG_{key.upper()} is 'nonsense'" in ran.err


@pytest.mark.parametrize(
    "option",
    [
        *("--metadata", "--context", "--hub", "--cluster", "--admin", "--bookkeeper", "--data", "--tls-ca"),
        *("--timeout", "--output", "--columns"),
    ],
)
def test_option_with_an_empty_value_is_refused_and_no_default_takes_its_place(admin: Admin, option: str) -> None:
    ran = admin.run("config", "context", "save", "eu", "--unset", "hub", option, "")
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (ExitCode.USAGE, "", 1), ran
    assert option in ran.err
    assert not _file(admin).exists()


def test_unset_variable_in_a_script_wipes_no_other_store(admin: Admin) -> None:
    admin.run("topic", "create", "news", HEDWIG_METADATA="")
    ran = admin.run("metadata", "format", "--wipe", "--yes", "--metadata", "", HEDWIG_METADATA="")
    assert (ran.code, "--metadata" in ran.err) == (ExitCode.USAGE, True)
    assert admin.run("topic", "list", "-o", "ndjson", HEDWIG_METADATA="").rows == [{"topic": "news"}]
    assert admin.run("dev", "down", "--yes", "--dir", "").code == ExitCode.USAGE


@pytest.mark.parametrize("key", SETTINGS)
def test_empty_variable_of_the_environment_counts_as_not_set(admin: Admin, key: str) -> None:
    admin.environment["HEDWIG_METADATA"] = ""
    nothing = {} if key == "output" else {"HEDWIG_OUTPUT": "json"}
    ran = admin.run("config", "show", *(["-o", "json"] if key == "output" else []), **nothing)
    assert (
        admin.run(
            "config", "show", *(["-o", "json"] if key == "output" else []), **nothing, **{f"HEDWIG_{key.upper()}": ""}
        )
        == ran
    )


@pytest.mark.parametrize(
    "address", ["nonsense", "http://h:4081", "h:", "h:0", "h:65536", "h:4081:4082", ":4081", "::1:4081"]
)
def test_admin_endpoint_that_cannot_be_one_is_refused_wherever_it_is_given(admin: Admin, address: str) -> None:
    admin.done("topic", "create", "news")
    commands = (
        *(("topic", "stats", "news"), ("subscription", "lag", "news"), ("message", "count", "news")),
        *(("topic", "delete", "news", "--yes"), ("top", "--count", "1"), ("check", "health"), ("console",)),
        *(("hub", "show"), ("config", "context", "save", "eu")),
    )
    for command in commands:
        ran = admin.run(*command, "--admin", address, text="")
        assert (ran.code, ran.out, len(ran.err.splitlines())) == (ExitCode.USAGE, "", 1), ran
        assert "--admin" in ran.err
        assert f"{address!r}; give HOST:PORT" in ran.err
    for command in (("topic", "stats", "news"), ("top", "--count", "1"), ("check", "health"), ("hub", "show")):
        ran = admin.run(*command, HEDWIG_ADMIN=address)
        assert (ran.code, ran.out) == (ExitCode.USAGE, ""), ran
        assert "HEDWIG_ADMIN is" in ran.err
    urls = ("--from", "sqlite:///a", "--to", "sqlite:///b")
    ran = admin.run("metadata", "migrate", *urls, "--hub-admin", address)
    assert (ran.code, "--hub-admin" in ran.err) == (ExitCode.USAGE, True)
    _file(admin).parent.mkdir(parents=True)
    _file(admin).write_text(f"[contexts.eu]\nadmin = {address!r}\n")
    assert "contexts.eu.admin" in admin.run("topic", "stats", "news", "--context", "eu").err


# ------------------------------------------------------------------------------------------------------- commands


def test_contexts_are_saved_listed_used_switched_back_shown_and_deleted(admin: Admin) -> None:
    created = admin.done("config", "context", "save", "eu", "--hub", "eu:4080", "--timeout", "5", "-o", "json").json
    assert created == {
        "context": "eu",
        "result": "created",
        "current": False,
        "hub": "eu:4080",
        "timeout": 5.0,
        "output": "json",
    }
    _save(admin, "us", "--hub", "us:4080")
    changed = admin.done("config", "context", "save", "eu", "--timeout", "6", "--unset", "output")
    assert "changed" in changed.out
    assert tomllib.loads(_file(admin).read_text()) == {
        "contexts": {"eu": {"hub": "eu:4080", "timeout": 6.0}, "us": {"hub": "us:4080"}}
    }
    assert _use(admin, "eu") == ("eu", None)
    assert _use(admin, "us") == ("us", "eu")
    assert _use(admin, "-") == ("eu", "us")
    assert _use(admin, "-") == ("us", "eu")
    rows = admin.done("config", "context", "list", "-o", "ndjson").rows
    assert [(row["context"], row["current"], row["hub"]) for row in rows] == [
        ("eu", False, "eu:4080"),
        ("us", True, "us:4080"),
    ]
    assert admin.done("config", "context", "show", "-o", "json").json["context"] == "us"
    assert admin.done("config", "context", "show", "eu", "-o", "json").json["timeout"] == 6.0
    assert admin.done("config", "context", "delete", "us", "--dry-run").out.startswith("result")
    refused = admin.run("config", "context", "delete", "us", text="n\n")
    assert (refused.code, "which is in use" in refused.err) == (ExitCode.FAILED, True)
    admin.done("config", "context", "delete", "us", "--yes")
    assert _settings(admin)["context"] == (None, "default")
    assert admin.run("config", "context", "delete", "us", "--yes").code == ExitCode.NOT_FOUND
    assert admin.done("config", "context", "delete", "us", "--if-exists", "-o", "json").json["result"] == "absent"


def _use(admin: Admin, name: str) -> tuple[Any, Any]:
    result = admin.done("config", "context", "use", name, "-o", "json").json
    return result["context"], result["previous"]


def test_switching_back_from_the_first_context_leaves_none_in_use(admin: Admin) -> None:
    _save(admin, "eu", "--timeout", "5", "--use")
    assert _use(admin, "-") == (None, "eu")
    assert _settings(admin)["timeout"] == (30.0, "default")
    assert _use(admin, "-") == ("eu", None)


def test_list_is_cut_and_goes_on_as_all_listings(admin: Admin) -> None:
    for name in ("c", "ab", "aa"):
        _save(admin, name, "--timeout", "5")

    def listed(*arguments: str) -> tuple[list[str], str | None]:
        page = admin.done("config", "context", "list", *arguments, "-o", "json").json
        return [row["context"] for row in page["contexts"]], page["next_page_token"]

    names, token = listed("--limit", "2")
    assert (names, token is not None) == (["aa", "ab"], True)
    assert listed("--page-token", str(token)) == (["c"], None)
    assert listed("--prefix", "a") == (["aa", "ab"], None)
    assert listed("--start-after", "aa") == (["ab", "c"], None)


def test_numbers_are_shown_and_saved_as_they_were_typed(admin: Admin) -> None:
    def shown(*arguments: str) -> str:
        (line,) = (
            line for line in admin.done("config", "show", *arguments).out.splitlines() if line.startswith("time")
        )
        return line.split()[1]

    assert shown() == "30"
    assert shown("--timeout", "5") == "5"
    assert shown("--timeout", "0.5") == "0.5"
    _save(admin, "eu", "--timeout", "7", "--use")
    assert "timeout = 7\n" in _file(admin).read_text()
    assert shown() == "7"


def test_path_names_the_file_of_contexts(admin: Admin) -> None:
    assert admin.done("config", "path", "-o", "json").json == {"path": str(_file(admin)), "exists": False}
    ran = admin.run("config", "path", "--columns", "path", "--no-header", XDG_CONFIG_HOME="relative")
    assert ran.out == f"{admin.directory}/.config/hedwig/admin.toml\n"


def test_path_is_bare_for_scripts(admin: Admin) -> None:
    assert admin.done("config", "path").out == f"{_file(admin)}\n"
    assert admin.done("config", "path", "--no-header", "-o", "table").out == f"{_file(admin)}\n"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("topic", "list", "--context", "nobody"), 3, ["'nobody'", "there are eu"]),
        (("config", "context", "use", "nobody"), 3, ["'nobody'", "there are eu"]),
        (("config", "context", "show", "nobody"), 3, ["'nobody'"]),
        (("config", "context", "show"), 3, ["config context use NAME"]),
        (("config", "context", "use", "-"), 1, ["no context was used before"]),
        (("config", "context", "save", "us"), 2, ["--metadata", "--tls-ca"]),
        (("config", "context", "save", "../us", "--timeout", "5"), 2, ["'../us'"]),
        (("config", "context", "save", "us", "--metadata", "nonsense"), 2, ["nonsense", "sqlite:///"]),
        (("config", "context", "save", "us", "--metadata", "foo://x"), 2, ["'foo'", "sqlite"]),
        (("config", "context", "save", "us", "--metadata", "zookeeper://z"), 2, ["zookeeper://z"]),
        (("config", "context", "save", "us", "--cluster", "sqlite:///x"), 2, ["sqlite:///x", "zookeeper://"]),
        (("config", "context", "save", "us", "--hub", "x:y"), 2, ["'x:y'"]),
        (("config", "context", "save", "us", "--timeout", "1", "--unset", "timeout"), 2, ["not both"]),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else "",
)
def test_mistake_is_one_line_and_changes_nothing(
    admin: Admin, arguments: tuple[str, ...], code: int, words: list[str]
) -> None:
    _save(admin, "eu", "--timeout", "5")
    before = _file(admin).read_bytes()
    ran = admin.run(*arguments)
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (code, "", 1), ran
    for word in words:
        assert word in ran.err
    assert _file(admin).read_bytes() == before


# ------------------------------------------------------------------------------------------------------- the file


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("contexts = [", "Invalid value"),
        ("\xff", "decode"),
        ("colour = 1", "'colour'"),
        ("contexts = 1", "contexts is no table"),
        ("[contexts]\neu = 1", "contexts.eu is no table"),
        ("[contexts.eu]\nhubb = 'x'", "'hubb'"),
        ("[contexts.eu]\ntimeout = 'long'", "contexts.eu.timeout"),
        ("[contexts.eu]\ntimeout = true", "contexts.eu.timeout"),
        ("[contexts.eu]\ntimeout = nan", "contexts.eu.timeout"),
        ("[contexts.eu]\noutput = 'xml'", "choose from table"),
        ("[contexts.eu]\ntls = 'yes'", "true or false"),
        ("[contexts.eu]\nhub = ''", "contexts.eu.hub"),
        ("current = 'us'\n[contexts.eu]", "'us'"),
        ("previous = ['us']\n[contexts.eu]", "previous"),
    ],
)
def test_file_that_makes_no_sense_is_one_line_that_names_it(admin: Admin, text: str, word: str) -> None:
    _file(admin).parent.mkdir(parents=True)
    _file(admin).write_bytes(text.encode("latin-1"))
    for arguments in (("topic", "list"), ("config", "show"), ("config", "context", "save", "us", "--timeout", "5")):
        ran = admin.run(*arguments)
        assert (ran.code, ran.out, len(ran.err.splitlines())) == (ExitCode.USAGE, "", 1), ran
        assert str(_file(admin)) in ran.err
        assert word in ran.err
    assert admin.run("config", "path").code == 0
    assert _file(admin).read_bytes() == text.encode("latin-1")


def test_file_is_for_its_user_only_and_a_link_to_it_stays_one(admin: Admin) -> None:
    elsewhere = admin.directory / "dotfiles"
    elsewhere.mkdir()
    (elsewhere / "hedwig.toml").write_text("")
    _file(admin).parent.mkdir(parents=True)
    _file(admin).symlink_to(elsewhere / "hedwig.toml")
    (elsewhere / "hedwig.toml").chmod(0o644)
    _save(admin, "eu", "--timeout", "5")
    assert _file(admin).is_symlink()
    assert stat.S_IMODE((elsewhere / "hedwig.toml").stat().st_mode) == 0o600
    assert [path.name for path in elsewhere.iterdir()] == ["hedwig.toml"]


def test_write_that_fails_leaves_the_file_as_it_was(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    _save(admin, "eu", "--timeout", "5")
    before = _file(admin).read_bytes()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tomli_w, "dump", full)
    ran = admin.run("config", "context", "save", "us", "--timeout", "5")
    assert (ran.code, len(ran.err.splitlines())) == (ExitCode.FAILED, 1)
    assert "No space left" in ran.err
    assert _file(admin).read_bytes() == before
    assert [path.name for path in _file(admin).parent.iterdir()] == ["admin.toml"]


def _add_contexts(first: int, count: int) -> None:
    contexts._LOCK_WAIT_S = DEADLINE_S  # type: ignore[misc]  # However slow the disk is, nobody gives up here.
    for number in range(first, first + count):
        with changing_contexts() as draft:
            draft.saved = draft.saved.saved(f"n{number}", {"timeout": float(number + 1)})


def test_changes_of_several_processes_at_once_are_all_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=_add_contexts, args=(number * 10, 10)) for number in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(DEADLINE_S)
        assert process.exitcode == 0
    saved = tomllib.loads((tmp_path / "hedwig" / "admin.toml").read_text())["contexts"]
    assert saved == {f"n{number}": {"timeout": number + 1.0} for number in range(20)}


def test_file_that_another_process_holds_is_not_waited_for_without_end(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hedwig.cli.settings.contexts._LOCK_WAIT_S", 0.05)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(admin.directory / "config"))
    with changing_contexts() as draft:
        draft.saved = SavedContexts({"eu": {"timeout": 5.0}})
        ran = admin.run("config", "context", "save", "us", "--timeout", "5")
        assert (ran.code, "another process" in ran.err) == (ExitCode.FAILED, True)
    with pytest.raises(OperationError, match="another process"), changing_contexts(), changing_contexts():
        raise AssertionError
    assert tomllib.loads(_file(admin).read_text()) == {"contexts": {"eu": {"timeout": 5.0}}}
    assert [path.name for path in _file(admin).parent.iterdir()] == ["admin.toml"]
