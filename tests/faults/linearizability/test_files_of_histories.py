"""Prove that histories in files are judged from the command line, as after a run that failed."""

import json
from pathlib import Path

import pytest

from tests.faults.linearizability.__main__ import main
from tests.faults.linearizability.test_jepsen_logs import ETCD, KV


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    hard = [f"INFO  jepsen.util - {number}\t:invoke\t:write\t{number}" for number in range(12)]
    hard += [f"INFO  jepsen.util - {number}\t:ok\t:write\t{number}" for number in range(12)]
    hard += ["INFO  jepsen.util - 0\t:invoke\t:read\tnil", "INFO  jepsen.util - 0\t:ok\t:read\t99"]
    texts = {
        "etcd": ETCD,
        "etcd-bad": ETCD.replace(":read\t4", ":read\t3"),
        "etcd-hard": "\n".join(hard),
        "kv": KV,
        "kv-bad": KV.replace('"xy z"', '"y zx"'),
        "a": _claim("a", 1, {"came": "written", "version": "1"}),
        "b": _claim("b", 1, {"came": "refused", "record": [["a:1:-1", 1], "1"]}),
        "c": _claim("c", 1, {"came": "written", "version": "2"}),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return {name: str(tmp_path / name) for name in texts}


def _claim(process: str, epoch: int, answer: dict[str, object]) -> str:
    asked = {"topic": "74", "do": "write", "hub": [f"{process}:1:-1", epoch], "given": "NEW"}
    facts = [{"call": 1, "at": 10, "process": process, **asked}, {"return": 1, "at": 20, **answer}]
    return "".join(json.dumps(fact) + "\n" for fact in facts)


@pytest.mark.parametrize(
    ("form", "names", "status", "said"),
    [
        ("etcd", ["etcd"], 0, "etcd: linearizable (6 operations on 1 keys)"),
        ("etcd", ["etcd", "etcd-bad"], 1, "etcd-bad: not linearizable"),
        ("etcd", ["etcd-bad"], 1, "this one could not be placed"),
        ("etcd", ["etcd-hard", "--deadline", "0"], 3, "etcd-hard: unknown"),
        ("kv", ["kv"], 0, "kv: linearizable (5 operations on 2 keys)"),
        ("kv", ["kv-bad"], 1, "kv-bad: not linearizable"),
        ("ownership", ["a", "b"], 0, "b: linearizable (2 operations on 1 keys)"),
        ("ownership", ["a", "b", "c"], 1, "c: not linearizable (3 operations on 1 keys)"),
    ],
)
def test_files_are_judged(
    files: dict[str, str],
    form: str,
    names: list[str],
    status: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([form, *(files.get(name, name) for name in names)]) == status
    assert said in capsys.readouterr().out
