"""Checks where requests to the admin endpoint come from: it answers none that a page of another site has sent.

Any page can make a browser send requests to this machine. It can read the answers only if its own name resolves to this
machine (DNS rebinding). The browser then takes the hub for the page's site. So the endpoint answers only to its own
names.
"""

import re
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final

from aiohttp import web

__all__ = ["Callers"]

_HOST: Final = re.compile(r"(\[[^\[\]]+\]|[^:\[\]]*)(?::[0-9]*)?")
_SAME_SITE: Final = frozenset({"same-origin", "none"})
"""The values of Sec-Fetch-Site for requests that no page of another site sent; a sibling domain is another site."""


class Callers:
    """Checks the requests to a hub that answers to some names, to localhost, and to addresses."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset({"localhost", *(_plain(name) for name in names)})

    def check(self, request: web.Request) -> None:
        """Raise HTTPForbidden if a page of another site may have sent the request, HTTPBadRequest if it is unclear."""
        hosts = request.headers.getall("Host", [])
        if len(hosts) > 1:
            raise web.HTTPBadRequest(reason="there are several Host headers; send one")
        for host in hosts:  # Every browser sends one; probes that speak HTTP/1.0 do not.
            # A request line with a whole URL names a host too.
            for name in {host, request.host}:
                self._check_name(name)
        self._check_site(request, hosts)

    def _check_name(self, host: str) -> None:
        name = _plain(host)
        if name and name not in self._names and not _is_address(name):
            raise web.HTTPForbidden(
                reason=f"this admin endpoint does not answer to the name {name!r}; ask by its address, "
                "or have the name added to the hub's option admin_hosts"
            )

    @staticmethod
    def _check_site(request: web.Request, hosts: list[str]) -> None:
        origin = request.headers.get("Origin")
        if origin is not None and request.method not in ("GET", "HEAD"):
            raise web.HTTPForbidden(reason="browsers may not change a hub; use curl")
        sites = {site.strip().lower() for site in request.headers.getall("Sec-Fetch-Site", [])}
        # Older browsers do not send Sec-Fetch-Site.
        is_foreign = origin is not None and [origin.partition("://")[2].lower()] != [host.lower() for host in hosts]
        if is_foreign or not sites <= _SAME_SITE:
            raise web.HTTPForbidden(reason="a page of another site sent this; type the address yourself, or use curl")


def _plain(host: str) -> str:
    """Return the name in a Host header in the form to compare: without port, in lower case, without the final dot."""
    host = host.strip().lower()
    match = _HOST.fullmatch(host)
    # A text that is no host and port is compared as it is, because some clients send an IPv6 address without brackets.
    name = match[1] if match is not None else host
    return name.removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        return bool(ip_address(name.removeprefix("[").removesuffix("]")))
    except ValueError:
        return False
