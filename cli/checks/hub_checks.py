"""Checks of the hubs: that ZooKeeper answers, that every hub is ready, and that it has bookies enough."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from hedwig.cli.checks.store_checks import StoreHub
from hedwig.cli.checks.verdicts import Finding, Verdict
from hedwig.cli.deployment.admin_endpoint import AdminEndpoint, RefusedError
from hedwig.cli.deployment.bookie_count import count_bookies
from hedwig.cli.deployment.cluster_access import ClusterAccess, read_cluster
from hedwig.cli.deployment.ledger_access import bookkeeper_of
from hedwig.cli.deployment.topic_owner import ADMIN_PORT, is_refused
from hedwig.cli.errors import CommandError, ExitCode, counted
from hedwig.cli.settings.settings import Settings
from hedwig.client import HubAddress
from hedwig.errors import ConfigurationError, HedwigError

if TYPE_CHECKING:
    from hedwig.hub.liveness import LiveHub

__all__ = ["check_hubs"]

_ENSEMBLE: Final = 3
"""The bookies that a ledger is spread over, unless hubs say otherwise."""
_SLOWEST_S: Final = 10.0
"""How long a hub has to say whether it is ready: it does little for that."""


def check_hubs(
    settings: Settings,
    cluster: ClusterAccess,
    admin: str | None,
    standalone: StoreHub | None,
    note: Callable[[Finding], None],
) -> None:
    """Check the hubs of the cluster that was named, else those of the store's own place, else the standalone hub.

    What is found is given to `note`.
    """
    try:
        url = cluster.url(settings)
    except ConfigurationError:
        _check_standalone(settings, admin, standalone, note)
        return
    try:
        hubs = read_cluster(settings, cluster)
    except (CommandError, ConfigurationError) as exc:
        is_down = isinstance(exc, CommandError) and exc.code is ExitCode.UNAVAILABLE
        note(Finding("liveness", Verdict.FAIL if is_down else Verdict.UNKNOWN, str(exc)))
        return
    note(Finding("liveness", Verdict.PASS, f"ZooKeeper at {url} answers, with {counted(len(hubs), 'hub')} alive"))
    if not hubs:
        if cluster.given is None and standalone is not None:
            # A store in ZooKeeper is taken for its own cluster, and serves a standalone hub just as well.
            _check_standalone(settings, admin, standalone, note)
            return
        more = "; if hubs are registered elsewhere, name that place with --cluster URL" if cluster.given is None else ""
        note(Finding("hubs", Verdict.FAIL, f"no hub is alive: nothing can be published{more}"))
        return
    options = _check_each(settings, hubs, note)
    note(_check_bookies(settings, cluster, options))


def _check_standalone(
    settings: Settings, admin: str | None, standalone: StoreHub | None, note: Callable[[Finding], None]
) -> None:
    if standalone is None:
        note(Finding("liveness", Verdict.SKIP, "no cluster was named; --cluster URL names one"))
        if admin is None:
            note(Finding("hubs", Verdict.SKIP, "no hub has used this store"))
            return
    if standalone is None:
        assert admin is not None, "it was looked at above"
        verdict, detail, _ = _ask(settings, None, admin)
    else:
        address = HubAddress.parse(standalone.hub.address)
        verdict, detail, _ = _ask(settings, standalone.hub.address, admin or f"{address.host}:{ADMIN_PORT}")
        within_s = min(_SLOWEST_S, settings.operation_timeout_s())
        if verdict is Verdict.UNKNOWN and is_refused(address.host, address.port, within_s):
            verdict = Verdict.FAIL
            what = "start it" if standalone.hindrance is None else f"it would not start: {standalone.hindrance}"
            detail = f"nothing listens where the standalone hub served last, {address.host}:{address.port}; {what}"
    note(Finding("hub", Verdict.FAIL if verdict is Verdict.WARN else verdict, detail))


def _check_each(
    settings: Settings, hubs: "Sequence[LiveHub]", note: Callable[[Finding], None]
) -> Sequence[Mapping[str, Any]]:
    """Note of each hub whether it is ready; return the options of those that said.

    One that is not ready is a warning while another is, whatever it is by itself.
    """
    found: list[tuple[Verdict, str, Mapping[str, Any] | None]] = []
    for hub in hubs:
        name = f"{hub.info.host}:{hub.info.port}"
        if hub.admin is None:
            why = "it announces no admin endpoint; it is an original hub, or runs with admin_port = -1"
            found.append((Verdict.UNKNOWN, f"{name}: {why}", None))
            continue
        verdict, detail, options = _ask(settings, hub.info.address, hub.admin)
        if hub.is_draining and verdict is Verdict.PASS:
            verdict, detail = Verdict.WARN, f"{name} is drained; hedwig-admin hub undrain {name} ends that"
        found.append((verdict, detail, options))
    can_serve = any(verdict in (Verdict.PASS, Verdict.UNKNOWN) for verdict, _, _ in found)
    for verdict, detail, _ in found:
        note(Finding("hub", Verdict.FAIL if verdict is Verdict.WARN and not can_serve else verdict, detail))
    return [options for _, _, options in found if options is not None]


def _ask(settings: Settings, address: str | None, admin: str) -> tuple[Verdict, str, Mapping[str, Any] | None]:
    """Return whether the hub at `address` is ready, in words, and its options; WARN if it says that it is not."""
    within_s = min(_SLOWEST_S, settings.operation_timeout_s())
    name = admin if address is None else _host_and_port(address)
    endpoint = AdminEndpoint(settings.command, name, admin, within_s)
    try:
        health = endpoint.get("/health")
        if address is not None and health.get("address") != address:
            other = f"what answers at {admin} is hub {health.get('address')}"
            return Verdict.UNKNOWN, f"{name}: {other}; name a way to the right one with --admin HOST:PORT", None
        options = endpoint.get("/options")
        endpoint.get("/ready")
    except RefusedError as exc:
        hindrances = exc.answer.get("hindrances")
        said = "; ".join(str(each) for each in hindrances) if isinstance(hindrances, list) else exc.said
        return Verdict.WARN, f"{name} is not ready: {said}", None
    except CommandError as exc:
        return Verdict.UNKNOWN, str(exc), None
    return Verdict.PASS, f"{name} is ready", options


def _check_bookies(settings: Settings, cluster: ClusterAccess, options: Sequence[Mapping[str, Any]]) -> Finding:
    """Return whether there are bookies enough for a new ledger of the hub that needs most."""
    told = [each["bookkeeper.zookeeper"]["value"] for each in options if "bookkeeper.zookeeper" in each]
    chosen = settings.chosen("bookkeeper").value
    place = chosen or next((each for each in told if each), None) or bookkeeper_of(settings, cluster)
    needed = [each["bookkeeper.ensemble"]["value"] for each in options if "bookkeeper.ensemble" in each]
    ensemble = max((each for each in needed if isinstance(each, int)), default=_ENSEMBLE)
    try:
        bookies = asyncio.run(count_bookies(str(place), min(_SLOWEST_S, settings.operation_timeout_s())))
    except ConfigurationError as exc:
        return Finding("bookies", Verdict.UNKNOWN, str(exc))
    except HedwigError as exc:
        return Finding("bookies", Verdict.FAIL, f"{exc}; give --bookkeeper URL if they are elsewhere")
    said = f"{bookies.writable} of {counted(bookies.writable + bookies.read_only, 'bookie')} at {place} take entries"
    if bookies.writable < ensemble:
        return Finding("bookies", Verdict.FAIL, f"{said}, and a new ledger needs {ensemble}: start more")
    if bookies.read_only:
        return Finding("bookies", Verdict.WARN, f"{said}; the others are read-only, which is what a full disk does")
    return Finding("bookies", Verdict.PASS, f"{said}; a new ledger needs {ensemble}")


def _host_and_port(address: str) -> str:
    parsed = HubAddress.parse(address)
    return f"{parsed.host}:{parsed.port}"
