"""Checks of the hubs: ZooKeeper answers, every hub is ready, and there are enough bookies."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from hedwig.client import HubAddress
from hedwig.errors import ConfigurationError, HedwigError, OperationError
from hedwig.exit_codes import ExitCode
from hedwig.human_units import counted
from hedwig.operations.checks.store_checks import StoreHub
from hedwig.operations.checks.verdicts import CheckResult, CheckStatus
from hedwig.operations.deployment.admin_endpoint import RefusedError
from hedwig.operations.deployment.cluster import read_cluster
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.ledgers import count_bookies
from hedwig.operations.deployment.topic_owner import ADMIN_PORT, is_refused

if TYPE_CHECKING:
    from hedwig.hub.liveness import LiveHub

__all__ = ["check_hubs"]

_ENSEMBLE: Final = 3
"""The number of bookies that a ledger is spread over, unless hubs have another option."""
_SLOWEST_S: Final = 10.0
"""How long a hub has to say whether it is ready. It does little work for that."""


def check_hubs(deployment: Deployment, standalone: StoreHub | None, note: Callable[[CheckResult], None]) -> None:
    """Check the hubs of the named cluster, else of the store's own ZooKeeper, else the standalone hub.

    Each finding goes to `note`.
    """
    try:
        url = deployment.cluster_url
    except ConfigurationError:
        _check_standalone(deployment, standalone, note)
        return
    try:
        hubs = read_cluster(deployment)
    except (OperationError, ConfigurationError) as exc:
        is_down = isinstance(exc, OperationError) and exc.code is ExitCode.UNAVAILABLE
        note(CheckResult("liveness", CheckStatus.FAIL if is_down else CheckStatus.UNKNOWN, str(exc)))
        return
    note(
        CheckResult("liveness", CheckStatus.PASS, f"ZooKeeper at {url} answers, with {counted(len(hubs), 'hub')} alive")
    )
    if not hubs:
        if deployment.cluster is None and standalone is not None:
            # A ZooKeeper that is named only as the store may hold a cluster, or a standalone hub.
            _check_standalone(deployment, standalone, note)
            return
        more = (
            "; if hubs are registered elsewhere, name their cluster with --cluster URL"
            if deployment.cluster is None
            else ""
        )
        note(CheckResult("hubs", CheckStatus.FAIL, f"no hub is alive: nothing can be published{more}"))
        return
    options = _check_each(deployment, hubs, note)
    note(_check_bookies(deployment, options))


def _check_standalone(deployment: Deployment, standalone: StoreHub | None, note: Callable[[CheckResult], None]) -> None:
    if standalone is None:
        note(CheckResult("liveness", CheckStatus.SKIP, "no cluster was named; --cluster URL names one"))
        if deployment.admin is None:
            note(CheckResult("hubs", CheckStatus.SKIP, "no hub has used this store"))
            return
        verdict, detail, _ = _ask(deployment, None, deployment.admin)
    else:
        address = HubAddress.parse(standalone.hub.address)
        admin = deployment.admin or f"{address.host}:{ADMIN_PORT}"
        verdict, detail, _ = _ask(deployment, standalone.hub.address, admin)
        within_s = min(_SLOWEST_S, deployment.timeout_s)
        if verdict is CheckStatus.UNKNOWN and is_refused(address.host, address.port, within_s):
            verdict = CheckStatus.FAIL
            what = "start it" if standalone.hindrance is None else f"it would not start: {standalone.hindrance}"
            detail = f"nothing listens where the standalone hub served last, {address.host}:{address.port}; {what}"
    note(CheckResult("hub", CheckStatus.FAIL if verdict is CheckStatus.WARN else verdict, detail))


def _check_each(
    deployment: Deployment, hubs: "Sequence[LiveHub]", note: Callable[[CheckResult], None]
) -> Sequence[Mapping[str, Any]]:
    """Note for each hub whether it is ready; return the options of the hubs that answered.

    A hub that is not ready is a warning if another hub can serve, else a failure.
    """
    results: list[tuple[CheckStatus, str, Mapping[str, Any] | None]] = []
    for hub in hubs:
        name = f"{hub.info.host}:{hub.info.port}"
        if hub.admin is None:
            why = "it announces no admin endpoint; it is an original hub, or runs with admin_port = -1"
            results.append((CheckStatus.UNKNOWN, f"{name}: {why}", None))
            continue
        verdict, detail, options = _ask(deployment, hub.info.address, hub.admin)
        if hub.is_draining and verdict is CheckStatus.PASS:
            verdict, detail = CheckStatus.WARN, f"{name} is drained; hedwig-admin hub undrain {name} ends that"
        results.append((verdict, detail, options))
    can_serve = any(verdict in (CheckStatus.PASS, CheckStatus.UNKNOWN) for verdict, _, _ in results)
    for verdict, detail, _ in results:
        note(CheckResult("hub", CheckStatus.FAIL if verdict is CheckStatus.WARN and not can_serve else verdict, detail))
    return [options for _, _, options in results if options is not None]


def _ask(deployment: Deployment, address: str | None, admin: str) -> tuple[CheckStatus, str, Mapping[str, Any] | None]:
    """Return whether the hub at `address` is ready, in words, and its options; WARN if the hub says that it is not."""
    within_s = min(_SLOWEST_S, deployment.timeout_s)
    name = admin if address is None else _host_and_port(address)
    endpoint = deployment.admin_client(name, admin, within_s)
    try:
        health = endpoint.health()
        if address is not None and health.get("address") != address:
            other = f"what answers at {admin} is hub {health.get('address')}"
            return CheckStatus.UNKNOWN, f"{name}: {other}; name a way to the right one with --admin HOST:PORT", None
        options = endpoint.get("/options")
        endpoint.get("/ready")
    except RefusedError as exc:
        hindrances = exc.answer.get("hindrances")
        said = "; ".join(str(each) for each in hindrances) if isinstance(hindrances, list) else exc.said
        return CheckStatus.WARN, f"{name} is not ready: {said}", None
    except OperationError as exc:
        return CheckStatus.UNKNOWN, str(exc), None
    return CheckStatus.PASS, f"{name} is ready", options


def _check_bookies(deployment: Deployment, options: Sequence[Mapping[str, Any]]) -> CheckResult:
    """Return whether there are enough bookies for a new ledger of the hub whose ledgers need most."""
    urls = [each["bookkeeper.zookeeper"]["value"] for each in options if "bookkeeper.zookeeper" in each]
    url = deployment.bookkeeper or next((each for each in urls if each), None) or deployment.bookies_of_cluster
    needed = [each["bookkeeper.ensemble"]["value"] for each in options if "bookkeeper.ensemble" in each]
    ensemble = max((each for each in needed if isinstance(each, int)), default=_ENSEMBLE)
    try:
        counting = count_bookies(str(url), min(_SLOWEST_S, deployment.timeout_s), deployment.stores_file)
        bookies = asyncio.run(counting)
    except ConfigurationError as exc:
        return CheckResult("bookies", CheckStatus.UNKNOWN, str(exc))
    except HedwigError as exc:
        return CheckResult("bookies", CheckStatus.FAIL, f"{exc}; give --bookkeeper URL if they are elsewhere")
    said = f"{bookies.writable} of {counted(bookies.writable + bookies.read_only, 'bookie')} at {url} take entries"
    if bookies.writable < ensemble:
        return CheckResult("bookies", CheckStatus.FAIL, f"{said}, and a new ledger needs {ensemble}: start more")
    if bookies.read_only:
        return CheckResult(
            "bookies", CheckStatus.WARN, f"{said}; the others are read-only, which is what a full disk does"
        )
    return CheckResult("bookies", CheckStatus.PASS, f"{said}; a new ledger needs {ensemble}")


def _host_and_port(address: str) -> str:
    parsed = HubAddress.parse(address)
    return f"{parsed.host}:{parsed.port}"
