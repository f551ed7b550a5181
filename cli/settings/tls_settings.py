"""Whether to reach hubs over TLS, and whom to trust. Three settings decide that together."""

from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from hedwig.cli.settings.configuration import SETTINGS, Chosen, Value
from hedwig.errors import ConfigurationError

__all__ = ["chosen_tls"]

_KEYS: Final = ("tls", "tls_ca", "tls_insecure")


class _Layered(Protocol):
    """Settings from several sources."""

    def layers(self, keys: tuple[str, ...]) -> Iterator[tuple[str, Mapping[str, Value]]]: ...


def chosen_tls(settings: _Layered) -> Mapping[str, Chosen]:
    """Return the values of `tls`, `tls_ca` and `tls_insecure` that count together.

    The first source that says how to trust hubs overrules later sources: a --tls-ca in the flags overrules a
    tls_insecure in the context. Raises: ConfigurationError - one source contradicts itself.
    """
    collected: dict[str, Chosen] = {}
    for source, given in settings.layers(_KEYS):
        values = {key: given[key] for key in _KEYS if key in given}
        _check(source, values)
        # --tls alone asks for hubs with a valid certificate, and does not say which authority to trust.
        counted = {key: value for key, value in values.items() if key != "tls_insecure" or "tls" not in collected}
        for key, value in counted.items():
            collected.setdefault(key, Chosen(value, source))
        if counted.get("tls") is False or counted.get("tls_insecure") or "tls_ca" in counted:
            break
    chosen = {key: collected.get(key, Chosen(SETTINGS[key].default, "default")) for key in _KEYS}
    if "tls" not in collected:
        for key in ("tls_ca", "tls_insecure"):
            if chosen[key].value:
                chosen["tls"] = Chosen(True, chosen[key].source)
    return chosen


def _check(source: str, values: Mapping[str, Value]) -> None:
    if values.get("tls_insecure") and ("tls_ca" in values or values.get("tls") is False):
        other = "tls_ca" if "tls_ca" in values else "tls = false"
        raise ConfigurationError(f"{source} gives both tls_insecure and {other}: they contradict each other")
