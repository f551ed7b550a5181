"""Prove the readers of published formats on our own logs: a history read from its log gets the same verdict."""

import random

import pytest

from tests.faults.linearizability import NOT_APPLIED, UNKNOWN, Operation, Unanswered, Verdict, check
from tests.faults.linearizability.support.classic_models import (
    Append,
    Applied,
    CasRegister,
    Compared,
    Get,
    Got,
    KeyValue,
    KeyValueInput,
    KeyValueOutput,
    Put,
    RegisterInput,
    RegisterOutput,
    Swap,
)
from tests.faults.linearizability.support.jepsen_logs import read_etcd, read_kv
from tests.faults.linearizability.support.mutations import WAYS, mutated
from tests.faults.linearizability.support.simulation import KINDS, random_script, simulate

ETCD = """\
INFO  jepsen.core - a line of somebody else
INFO  jepsen.util - 0\t:invoke\t:read\tnil
INFO  jepsen.util - 0\t:ok\t:read\tnil
INFO  jepsen.util - 1\t:invoke\t:write\t3
INFO  jepsen.util - 2\t:invoke\t:cas\t[3 4]
INFO  jepsen.util - 1\t:ok\t:write\t3
INFO  jepsen.util - :nemesis\t:info\t:start\tnil
INFO  jepsen.util - 2\t:ok\t:cas\t[3 4]
INFO  jepsen.util - 0\t:invoke\t:cas\t[3 1]
INFO  jepsen.util - 0\t:fail\t:cas\t[3 1]
INFO  jepsen.util - 1\t:invoke\t:read\tnil
INFO  jepsen.util - 1\t:fail\t:read\t:timed-out
INFO  jepsen.util - 2\t:invoke\t:write\t1
INFO  jepsen.util - 2\t:info\t:write\t:timed-out
INFO  jepsen.util - 0\t:invoke\t:read\tnil
INFO  jepsen.util - 0\t:ok\t:read\t4
"""

KV = """\
{:process 0, :type :invoke, :f :put, :key "a", :value "x"}
{:process 1, :type :invoke, :f :append, :key "a", :value "y z"}
{:process 1, :type :ok, :f :append, :key "a", :value "y z"}
{:process 1, :type :invoke, :f :get, :key "a", :value nil}
{:process 0, :type :ok, :f :put, :key "a", :value "x"}
{:process 1, :type :ok, :f :get, :key "a", :value "xy z"}
{:process 0, :type :invoke, :f :get, :key "b", :value nil}
{:process 0, :type :ok, :f :get, :key "b", :value ""}
{:process 1, :type :invoke, :f :append, :key "b", :value "q"}
"""


def test_a_log_of_a_register_is_read() -> None:
    operations = read_etcd(ETCD.splitlines())
    assert [(one.process, one.input, one.output) for one in sorted(operations, key=lambda one: one.start)] == [
        ("0", Get(), Got(None)),
        ("1", Put(3), Applied()),
        ("2", Swap(3, 4), Compared(True)),
        ("0", Swap(3, 1), Compared(False)),
        ("1", Get(), NOT_APPLIED),
        ("2", Put(1), UNKNOWN),
        ("0", Get(), Got(4)),
    ]
    assert check(operations, CasRegister()).verdict is Verdict.LINEARIZABLE
    wrong = read_etcd([*ETCD.splitlines()[:-1], ETCD.splitlines()[-1].replace("\t4", "\t3")])
    assert check(wrong, CasRegister()).verdict is Verdict.NOT_LINEARIZABLE
    with pytest.raises(ValueError, match="cannot come to"):
        read_etcd([*ETCD.splitlines()[:4], "INFO  jepsen.util - 1\t:fail\t:write\t3"])


def test_a_log_of_a_store_of_strings_is_read() -> None:
    operations = read_kv(KV.splitlines())
    assert [(one.process, one.key, one.input, one.output) for one in sorted(operations, key=lambda one: one.start)] == [
        ("0", "a", Put("x"), Applied()),
        ("1", "a", Append("y z"), Applied()),
        ("1", "a", Get(), Got("xy z")),
        ("0", "b", Get(), Got("")),
        ("1", "b", Append("q"), UNKNOWN),
    ]
    assert check(operations, KeyValue()).verdict is Verdict.LINEARIZABLE
    wrong = read_kv(KV.replace('"xy z"', '"y zx"').splitlines())
    assert check(wrong, KeyValue()).verdict is Verdict.NOT_LINEARIZABLE
    with pytest.raises(ValueError, match="line 1 is no event"):
        read_kv(["{}"])


@pytest.mark.parametrize("seed", range(40))
def test_a_history_written_as_a_log_and_read_again_has_the_same_verdict(seed: int) -> None:
    rng = random.Random(seed)
    _, register, text = KINDS
    changes = [(rng.choice((0, 2, 4)), rng.randrange(99), rng.randrange(99)) for _ in range(rng.randrange(2))]
    for kind in (register, text):
        history = simulate(kind, random_script(rng, processes=4, steps=60))
        for way, one, other in changes:
            history = mutated(history, way % WAYS, one, other)
        # In a log, a process with an open call has no later calls, and no other process may have its name.
        named = [_renamed(one, number) for number, one in enumerate(history)]
        named = [one for one in named if isinstance(one.output, Unanswered) or _is_of(one.input, one.output)]
        log = _as_log(named, is_text=kind is text)
        operations = read_kv(log) if kind is text else read_etcd(log)
        assert len(operations) == len([one for one in named if one.output is not NOT_APPLIED])
        assert check(operations, kind.model).verdict is check(named, kind.model).verdict


def _renamed(one: Operation[RegisterInput, RegisterOutput], number: int) -> Operation[RegisterInput, RegisterOutput]:
    return Operation(process=str(number), key=one.key, start=one.start, end=one.end, input=one.input, output=one.output)


def _is_of(asked: RegisterInput | KeyValueInput, output: RegisterOutput | KeyValueOutput) -> bool:
    belongs = {Get: Got, Swap: Compared, Put: Applied, Append: Applied}
    return isinstance(output, belongs[type(asked)])


def _as_log(history: list[Operation[RegisterInput, RegisterOutput]], *, is_text: bool) -> list[str]:
    line = _kv_line if is_text else _etcd_line
    moments = []
    for one in history:
        if one.output is not NOT_APPLIED:
            moments.append((one.start, 0, line(one, None)))
        if not isinstance(one.output, Unanswered):
            moments.append((one.end, 1, line(one, one.output)))
    return [text for *_, text in sorted(moments)]


def _etcd_line(one: Operation[RegisterInput, RegisterOutput], output: RegisterOutput | None) -> str:
    kind = "invoke" if output is None else "fail" if output == Compared(False) else "ok"
    match one.input:
        case Get():
            value = output.value if isinstance(output, Got) else None
            what = f":read\t{'nil' if value is None else value}"
        case Put(stored):
            what = f":write\t{stored}"
        case Swap(expected, stored):
            what = f":cas\t[{expected} {stored}]"
    return f"INFO  jepsen.util - {one.process}\t:{kind}\t{what}"


def _kv_line(one: Operation[RegisterInput | KeyValueInput, RegisterOutput], output: RegisterOutput | None) -> str:
    kind = "invoke" if output is None else "ok"
    name = type(one.input).__name__.lower()
    value = "nil" if isinstance(one.input, Get) and output is None else None
    if value is None:
        value = f'"{output.value if isinstance(output, Got) else getattr(one.input, "value", "")}"'
    return f'{{:process {one.process}, :type :{kind}, :f :{name}, :key "{one.key}", :value {value}}}'
