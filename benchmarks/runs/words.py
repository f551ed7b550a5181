"""The words of reports for measurements, and how they write numbers."""

from typing import Final

from hedwig.benchmarks.load.cases import EMBEDDED
from hedwig.benchmarks.load.workloads import FILL, RESTART, Among, Choice, Operation, Workload
from hedwig.benchmarks.runs.results import Measurement

__all__ = ["case_words", "count", "driver_title", "load_words", "ms", "short_count", "side_words"]

_TITLES: Final = {
    "sqlite": "SQLite",
    "zookeeper": "ZooKeeper",
    "hbase": "HBase",
    "hbase+index": "HBase with index",
    "hbase+thrift": "HBase over Thrift",
    "hedwig-admin": "hedwig-admin",
}
_THOUSAND: Final = 1000


def driver_title(driver: str) -> str:
    """Return the title of a backend or a driver."""
    return _TITLES.get(driver, driver)


def side_words(measurement: Measurement) -> str:
    """Return the driver of a measurement, and the hub and stores that it ran on."""
    on = measurement.on
    return (
        driver_title(measurement.driver)
        if on == EMBEDDED
        else f"{driver_title(measurement.driver)}, {driver_title(on)}"
    )


def case_words(workload: Workload) -> str:
    """Return the operations of a workload, its number of topics, and its load."""
    if Operation.COMMAND in workload.mix:
        return f"{workload.name}, {workload.topics:,} topics"
    if workload.name == "idle-connections":
        return f"{workload.connections:,} idle connections"
    parts = [workload.name, f"{workload.topics:,} topic{'s' if workload.topics != 1 else ''}"]
    if workload.subscribers:
        parts[-1] += f" × {workload.subscribers:,}"
    if any(name in workload.mix for name in (Operation.PUBLISH, Operation.DELIVER)):
        parts.append(f"{workload.message_bytes:,} B")
    if workload.name not in (FILL, RESTART):
        parts.append(load_words(workload))
    return ", ".join(parts)


def load_words(workload: Workload) -> str:
    """Return the load of a workload, and the keys that it goes to."""
    load = f"{workload.rate_per_s:,.0f}/s offered" if workload.is_open_loop else f"{workload.in_flight:,} in flight"
    parts = [load]
    if workload.among is Among.CONTENDED:
        parts = [f"{workload.in_flight // workload.keys} of {workload.in_flight} per key"]
    if workload.wide:
        parts.append(f"{workload.wide:,} subscription{'s' if workload.wide != 1 else ''}")
    if workload.choice is Choice.ZIPF:
        parts.append("zipf")
    return ", ".join(parts)


def count(value: float) -> str:
    """Return a number with as many digits as are meaningful."""
    if value >= 10:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def short_count(value: float) -> str:
    """Return a round number as short as it can be: 10 k, 1 M."""
    for size, letter in ((_THOUSAND**3, "G"), (_THOUSAND**2, "M"), (_THOUSAND, "k")):
        if value >= size:
            return f"{value / size:.3g} {letter}"
    return f"{value:.3g}"


def ms(us: float) -> str:
    """Return a time in milliseconds."""
    value = us / _THOUSAND
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
