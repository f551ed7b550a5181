"""Prove how options get their values: which source wins, what is accepted or refused, and by which error."""

import asyncio
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from hedwig.errors import ConfigurationError
from hedwig.hub.ledgers import LocalLedgerOptions
from hedwig.hub.options.access_options import AccessOptions
from hedwig.hub.options.configuration import (
    DEFAULT,
    Configuration,
    from_defaults,
    from_environment,
    from_file,
    from_setting,
)
from hedwig.hub.options.file import effective, example
from hedwig.hub.options.keys import keys, of_listeners, variable
from hedwig.hub.options.listener_options import ListenerOptions
from hedwig.hub.options.options import HubOptions
from hedwig.hub.process import start_hub
from hedwig.quantities import duration_s, show_duration, show_size, size_bytes
from tests.support.checkout import CHECKOUT

EXAMPLE = CHECKOUT / "hub" / "hub.toml.example"


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], Path]:
    """Write a configuration file."""

    def write(text: str) -> Path:
        path = tmp_path / "hub.toml"
        path.write_text(text)
        return path

    return write


def refused(make: Callable[[], object]) -> str:
    """Return the one line of a refusal."""
    with pytest.raises(ConfigurationError) as refusal:
        make()
    text = str(refusal.value)
    assert "\n" not in text
    return text


# ------------------------------------------------------------------------------------------------ which source wins


def test_a_flag_counts_before_the_environment_before_the_file_before_the_default(file: Callable[[str], Path]) -> None:
    path = file("port = 1\nadmin_port = 2\nchannels_max = 3\n[ledgers]\nread_threads = 5\n")
    configuration = Configuration.combine(
        from_defaults({"region": "here", "host": "::"}, "flag --first-steps"),
        from_file(path),
        from_environment({"HEDWIG_HUB_PORT": "11", "HEDWIG_HUB_ADMIN_PORT": "12", "HEDWIG_HUB_HOST": "localhost"}),
        [from_setting("port=21", "flag --port")],
    )
    options = configuration.options
    assert (options.port, options.admin_port, options.channels_max) == (21, 12, 3)
    assert (options.region, options.host, options.ledgers.read_threads) == ("here", "localhost", 5)
    assert options.topics_max == HubOptions().topics_max
    assert {
        key: configuration.origin(key)
        for key in ("port", "admin_port", "channels_max", "region", "host", "ledgers.read_threads", "topics_max")
    } == {
        "port": "flag --port",
        "admin_port": "environment HEDWIG_HUB_ADMIN_PORT",
        "channels_max": f"file {path}",
        "region": "flag --first-steps",
        "host": "environment HEDWIG_HUB_HOST",
        "ledgers.read_threads": f"file {path}",
        "topics_max": DEFAULT,
    }


def test_filters_of_all_sources_are_added_up(file: Callable[[str], Path]) -> None:
    configuration = Configuration.combine(
        from_file(file('[filters]\n"com.example.A" = "file:A"\nb = "file:b"\n')),
        from_environment({"HEDWIG_HUB_FILTERS": "b=environment:b, com.example.C=environment:C"}),
        [from_setting("filters.com.example.C=flag:C", "flag --set")],
    )
    assert configuration.options.filters == {"com.example.A": "file:A", "b": "environment:b", "com.example.C": "flag:C"}
    assert configuration.origin("filters.com.example.C") == "flag --set"
    assert configuration.origin("filters.b") == "environment HEDWIG_HUB_FILTERS"


def test_listeners_of_all_sources_are_added_up(file: Callable[[str], Path]) -> None:
    configuration = Configuration.combine(
        from_file(file('[listeners.java]\nport = 4090\nanonymous = "legacy"\n[listeners.in_house]\nport = 4091\n')),
        from_environment(
            {
                "HEDWIG_HUB_LISTENERS_JAVA_ADVERTISED_HOST": "java.example",
                "HEDWIG_HUB_LISTENERS_IN_HOUSE_NETWORKS": "10.0.0.0/8, 192.168.0.0/16",
            }
        ),
        [from_setting("listeners.java.anonymous=java", "flag --set")],
    )
    assert configuration.options.listeners == {
        "java": ListenerOptions(port=4090, anonymous="java", advertised_host="java.example"),
        "in_house": ListenerOptions(port=4091, networks=("10.0.0.0/8", "192.168.0.0/16")),
    }
    assert configuration.origin("listeners.java.anonymous") == "flag --set"
    assert configuration.origin("listeners.java.advertised_host").startswith("environment HEDWIG_HUB_LISTENERS_JAVA_")
    assert configuration.values()["listeners.in_house.port"] == 4091


def test_variables_that_are_empty_or_of_others_give_nothing() -> None:
    assert from_environment({"HEDWIG_HUB_PORT": "", "HEDWIG_HUB": "x:1", "HEDWIG_METADATA": "y", "PATH": "z"}) == []
    assert from_environment({"HEDWIG_HUB_CONFIG": "x"}, others=["HEDWIG_HUB_CONFIG"]) == []


# ---------------------------------------------------------------------------------------------------- accepted values


@pytest.mark.parametrize(
    ("toml", "key", "text", "value"),
    [
        ("cache_bytes = 65536", "cache_bytes", "65536", 65536),
        ('cache_bytes = "64 MiB"', "cache_bytes", "64 MiB", 64 << 20),
        ('ledgers.segment_bytes = "8kib"', "ledgers.segment_bytes", "8 KIB", 8192),
        ("topic_idle_s = 90", "topic_idle_s", "90", 90.0),
        ("topic_idle_s = 0.5", "topic_idle_s", "500ms", 0.5),
        ('topic_idle_s = "10 min"', "topic_idle_s", "10 min", 600.0),
        ("read_only = true", "read_only", "Yes", True),
        ("read_only = false", "read_only", "off", False),
        ("port = 4_080", "port", "4_080", 4080),
        ("ledgers.rewrite_below = 0.25", "ledgers.rewrite_below", "0.25", 0.25),
        ('data_directory = "/x"', "data_directory", "/x", Path("/x")),
        ('metadata = "sqlite:///a=b"', "metadata", "sqlite:///a=b", "sqlite:///a=b"),
        ('non_durable_topics = ["a/*", "b"]', "non_durable_topics", "a/*, b", ("a/*", "b")),
        ("non_durable_topics = []", "non_durable_topics", ",", ()),
        ('ledgers.reserve_bytes = "1 MiB"', "ledgers.reserve_bytes", "1MiB", 1 << 20),
    ],
)
def test_a_value_is_read_alike_everywhere(
    file: Callable[[str], Path], toml: str, key: str, text: str, value: object
) -> None:
    (of_file,) = from_file(file(toml))
    (of_environment,) = from_environment({variable(key): text})
    of_flag = from_setting(f"{key}={text}", "flag --set")
    for given in (of_file, of_environment, of_flag):
        assert (given.key, given.value, type(given.value)) == (key, value, type(value))


def test_a_data_directory_may_be_below_the_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/of/mine")
    assert from_setting("data_directory=~/hub", "flag --set").value == Path("/of/mine/hub")


def test_sizes_and_durations_survive_being_shown() -> None:
    for size in (0, 1, 1023, 1024, 1536, 1258291, 64 << 20, (64 << 20) + 1, 3 << 40):
        assert size_bytes(show_size(size)) == size
    for seconds in (0.0, 0.005, 0.25, 1.0, 1.5, 60.0, 90.0, 119.0, 120.0, 1800.0, 3600.0, 5400.0, 86400.0, 1e-5):
        assert duration_s(show_duration(seconds)) == pytest.approx(seconds, rel=1e-12)
    assert [show_duration(s) for s in (0.25, 60.0, 1800.0, 7200.0)] == ["250 ms", "60 s", "30 min", "2 h"]
    assert [show_size(s) for s in (1000, 1024, 64 << 20)] == ["1000", "1 KiB", "64 MiB"]


# --------------------------------------------------------------------------------------------------- refused values


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("prot = 1", "'prot'; did you mean 'port'?"),
        ("[ledger]\nread_threads = 1", "'ledger'; did you mean 'ledgers'?"),
        ("[ledgers]\nread_thread = 1", "did you mean 'ledgers.read_threads'?"),
        ("zzz = 1", "there is no option 'zzz'"),
        ('port = "4080"', "port: a whole number is expected, not '4080'"),
        ("port = 1.5", "port: a whole number is expected, not 1.5"),
        ("port = true", "port: a whole number is expected, not True"),
        ("host = 5", "host: a text in quotes is expected, not 5"),
        ('read_only = "true"', "read_only: true or false is expected, without quotes"),
        ('cache_bytes = "64 XB"', "cache_bytes: '64 XB' has the unit 'XB'; units are B, KiB"),
        ('cache_bytes = "1.5 B"', "cache_bytes: '1.5 B' is not a whole number of bytes"),
        ("cache_bytes = 1.5", 'cache_bytes: a size like 65536 or "64 MiB" is expected'),
        ('topic_idle_s = "5 MiB"', "topic_idle_s: '5 MiB' has the unit 'MiB'; units are ms, s, min, h, d"),
        ("topic_idle_s = inf", 'topic_idle_s: a time like 90 or "10 min" is expected'),
        ("ledgers.rewrite_below = nan", "ledgers.rewrite_below: a number is expected"),
        ('non_durable_topics = "a"', 'non_durable_topics: a list of texts like ["one", "two"] is expected'),
        ("non_durable_topics = [1]", "non_durable_topics: a list of texts"),
        ('data_directory = ""', "data_directory: a path is expected"),
        ("filters = 1", "filters: a table [filters] is expected"),
        ("[listeners]\nport = 1", "listeners: tables [listeners.NAME] are expected"),
        ("[listeners.java]\nport = true", "listeners.java.port: a whole number is expected"),
        ("[listeners.java.tls]\nport = 1", "listeners.java.tls: a text in quotes is expected"),
        (
            '[filters]\ncom.example.A = "x:y"',
            'filters.com: put the name of a filter that has dots into quotes: "com.…"',
        ),
        ("[filters]\na = 1", "filters.a: a text in quotes is expected"),
        ("port = !", "this is not TOML: Invalid value (at line 1"),
        ("port = 1\nport = 2", "this is not TOML"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line_that_names_it(file: Callable[[str], Path], text: str, says: str) -> None:
    path = file(text)
    line = refused(lambda: from_file(path))
    assert line.startswith(f"file {path}: ")
    assert says in line


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    assert "cannot read the file" in refused(lambda: from_file(tmp_path / "none.toml"))
    assert "cannot read the file" in refused(lambda: from_file(tmp_path))
    (tmp_path / "latin").write_bytes(b'region = "\xe9"')
    assert "this is not TOML" in refused(lambda: from_file(tmp_path / "latin"))
    (tmp_path / "large").write_bytes(b"#" * (1 << 20) + b"\n")
    assert "is this the hub's file?" in refused(lambda: from_file(tmp_path / "large"))


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"HEDWIG_HUB_PROT": "1"}, "environment HEDWIG_HUB_PROT: there is no option"),
        ({"HEDWIG_HUB_PROT": "1"}, "did you mean 'HEDWIG_HUB_PORT'?"),
        ({"HEDWIG_HUB_PORT": "tcp://10.0.0.1:4080"}, "environment HEDWIG_HUB_PORT: port: 'tcp://10.0.0.1:4080' is not"),
        ({"HEDWIG_HUB_LEDGERS_READ_THREADS": "x"}, "ledgers.read_threads: 'x' is not a whole number"),
        ({"HEDWIG_HUB_READ_ONLY": "maybe"}, "read_only: 'maybe' is neither true nor false"),
        ({"HEDWIG_HUB_LISTENERS_JAVA": "1"}, "environment HEDWIG_HUB_LISTENERS_JAVA: there is no option"),
        ({"HEDWIG_HUB_LISTENERS_JAVA_PORT": "x"}, "listeners.java.port: 'x' is not a whole number"),
        ({"HEDWIG_HUB_FILTERS": "a"}, "environment HEDWIG_HUB_FILTERS: 'filters.a' is not KEY=VALUE"),
    ],
)
def test_a_wrong_variable_is_refused_in_one_line_that_names_it(environment: Mapping[str, str], says: str) -> None:
    assert says in refused(lambda: from_environment(environment))


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("port", "flag --set: 'port' is not KEY=VALUE"),
        ("prot=1", "flag --set: there is no option 'prot'; did you mean 'port'?"),
        ("filters.=x:y", "there is no option 'filters.'"),
        (
            "listeners.java.prt=1",
            "did you mean 'listeners.java.port'?; an option of a listener is listeners.NAME.OPTION",
        ),
        ("listeners.java=1", "there is no option 'listeners.java'"),
        ("listeners=1", "there is no option 'listeners'"),
        ("port=one", "flag --set: port: 'one' is not a whole number"),
        ("topic_idle_s=nan", "'nan' is not a time like 90 or 10 min"),
        ("ledgers.rewrite_below=inf", "'inf' is not a number"),
    ],
)
def test_a_wrong_setting_is_refused_in_one_line_that_names_it(setting: str, says: str) -> None:
    assert says in refused(lambda: from_setting(setting, "flag --set"))


def test_a_value_out_of_its_range_names_where_it_is_from(file: Callable[[str], Path]) -> None:
    path = file("port = 99999\n[ledgers]\nread_threads = 0\n")
    of_file, of_table = from_file(path)
    assert refused(lambda: Configuration.combine([of_file])).startswith(
        f"file {path}: port is 99999; it must be from -1"
    )
    assert refused(lambda: Configuration.combine([of_table])).startswith(f"file {path}: ledgers: read_threads is 0")


def test_two_values_that_do_not_go_together_name_where_each_is_from() -> None:
    line = refused(
        lambda: Configuration.combine(
            from_environment({"HEDWIG_HUB_FRAME_BYTES_MAX": "8 MiB"}),
            [from_setting("ledgers.entry_bytes_max=1MiB", "flag --set")],
        )
    )
    assert "ledgers.entry_bytes_max: flag --set" in line
    assert "frame_bytes_max: environment HEDWIG_HUB_FRAME_BYTES_MAX" in line


@pytest.mark.parametrize(("one", "other"), [("port", "admin_port"), ("port", "tls_port"), ("tls_port", "admin_port")])
def test_two_listeners_on_one_port_are_refused_wherever_they_are_from(
    file: Callable[[str], Path], one: str, other: str
) -> None:
    path = file(f'{one} = 4090\ntls_certificate = "hub.pem"\n')
    variable = f"HEDWIG_HUB_{other.upper()}"
    line = refused(lambda: Configuration.combine(from_file(path), from_environment({variable: "4090"})))
    assert f"{one} and {other} are both 4090; give each a port of its own" in line
    assert f"{one}: file {path}" in line
    assert f"{other}: environment {variable}" in line


def test_a_default_port_that_another_listener_was_given_is_refused() -> None:
    line = refused(lambda: Configuration.combine([from_setting("port=4081", "flag --port")]))
    assert line.startswith("flag --port: port and admin_port are both 4081")


@pytest.mark.parametrize(
    "options",
    [
        {"port": 0, "admin_port": 0},
        {"host": "127.0.0.2", "port": 4090, "admin_port": 4090},
    ],
    ids=["any free ones", "two addresses"],
)
def test_listeners_that_do_not_meet_may_be_given_the_same_number(options: dict[str, Any]) -> None:
    HubOptions(**options)


def test_any_address_meets_every_other() -> None:
    with pytest.raises(ConfigurationError, match="both 4090"):
        HubOptions(
            host="0.0.0.0", advertised_host="hub", port=4090, admin_port=4090, access=AccessOptions(mode="rules")
        )


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "localhost", "::1"])
def test_only_a_hub_that_others_can_reach_must_say_who_may_do_what(host: str) -> None:
    assert not HubOptions(host=host, advertised_host="hub").access.are_rules_asked
    with pytest.raises(ConfigurationError, match=r"Set access\.mode to rules, or to open"):
        HubOptions(host="192.0.2.1")
    assert HubOptions(host="192.0.2.1", access=AccessOptions(mode="audit")).access.are_rules_asked


# ----------------------------------------------------------------------------------------------------------- as files


def test_the_example_file_is_made_from_the_options() -> None:
    assert EXAMPLE.read_text() == example(), "make it anew: python -m hedwig.hub.options.file > hub/hub.toml.example"


def test_the_example_file_has_every_option_and_its_default(file: Callable[[str], Path]) -> None:
    lines = example().splitlines()
    assignments = [line.removeprefix("# ") for line in lines if " = " in line or line.startswith(("[", "# ["))]
    given = from_file(file("\n".join(assignments)))
    values = {each.key: each.value for each in given if not each.key.startswith("filters.")}
    listener = {key: values.pop(key) for key in list(values) if key.startswith("listeners.")}
    assert listener == {key.name: key.default for key in of_listeners("java").values()}
    reserve = values.pop("ledgers.reserve_bytes")
    assert reserve == LocalLedgerOptions().reserve
    assert values == {key.name: key.default for key in keys().values() if key.name != "ledgers.reserve_bytes"}
    assert {each.key for each in given if each.key.startswith("filters.")} == {
        "filters.short-messages",
        "filters.com.example.ShortMessageFilter",
    }
    for key in keys().values():
        assert key.what.split()[0] in example(), f"{key.name} is not explained"


def test_the_options_in_force_are_a_file_that_makes_the_same(file: Callable[[str], Path]) -> None:
    settings = (
        'region="quoted" \\ \x7f 😀',
        "non_durable_topics=a/*,b",
        "cache_bytes=3 MiB",
        "topic_idle_s=0.25",
        "filters.com.example.A=x:y",
        "listeners.java.port=4090",
        "listeners.java.networks=10.0.0.0/8",
        "ledgers.reserve_bytes=1 MiB",
    )
    for chosen in (settings, ()):
        before = Configuration.combine([from_setting(each, "flag --set") for each in chosen])
        text = effective(before)
        assert Configuration.combine(from_file(file(text))).options == before.options
        tomllib.loads(text)
        assert ('cache_bytes = "3 MiB"  # flag --set' in text) == bool(chosen)
        assert "port = 4080  # default" in text


def test_every_option_has_a_variable_of_its_own() -> None:
    variables = [variable(key) for key in keys()]
    assert len(set(variables)) == len(variables)
    assert variable("ledgers.read_threads") == "HEDWIG_HUB_LEDGERS_READ_THREADS"


def test_values_are_those_of_the_options() -> None:
    values: Mapping[str, Any] = Configuration.combine([from_setting("filters.a=x:y", "flag --set")]).values()
    assert values["port"] == 4080
    assert values["ledgers.read_threads"] == 4
    assert values["filters.a"] == "x:y"


@pytest.mark.parametrize(
    "wrong",
    [
        {"host": "0.0.0.0", "access": AccessOptions(mode="open")},
        {"host": "192.0.2.1"},
        {"host": "hub.example"},
        {"advertised_host": "two words"},
        {"advertised_host": "::1"},
        {"region": "\ud800"},
        {"topic_idle_s": float("inf")},
        {"consume_flush_s": float("nan")},
    ],
    ids=str,
)
def test_values_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        HubOptions(**wrong)


@pytest.mark.parametrize("name", ["a#b", "a?b", "a%41b", "ä b"])
def test_the_embedded_metadata_lie_in_the_data_directory_whatever_its_name(tmp_path: Path, name: str) -> None:
    options = HubOptions(data_directory=tmp_path / name, port=0, admin_port=-1)

    async def start_and_end() -> None:
        async with await start_hub(Configuration(options)):
            pass

    asyncio.run(start_and_end())
    assert (tmp_path / name / "metadata.db").exists()
