"""Filters on the properties of messages, the same in hubs and clients: no code has to be installed at a hub.

    lang = "de" and (room in ("a", "b") or room ^= "private/") and has author and not author = "ann"

`=` compares a property with a value, `in` with each value of a set, and `^=` with its beginning. `has` asks whether the
property is there. A test of a property that is not there is false. `not` binds closest, then `and`, then `or`. Values
are in double quotes, where a backslash comes before a quote, a backslash, or `xNN` for a byte. So are names, except
those of letters, digits and `_.-`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from hedwig.errors import InvalidArgumentError
from hedwig.model import SubscriptionPreferences
from hedwig.wire import Message

__all__ = ["FILTER_NAME", "FILTER_OPTION", "PASS_ALL_NAME", "PropertyFilter", "with_filter"]

FILTER_NAME: Final = "hedwig:properties"
"""The name of the message filter in the preferences of a subscription."""
FILTER_OPTION: Final = "hedwig:filter"
"""The option there that has the expression, in UTF-8."""
PASS_ALL_NAME: Final = "org.apache.hedwig.filter.PipelineFilter"
"""A message filter of the original that accepts all. Hubs of the original cannot remove a filter."""

_BYTES_MAX: Final = 1024
_DEPTH_MAX: Final = 32

_Test: TypeAlias = Callable[[Mapping[str, bytes]], bool]

_TOKEN: Final = re.compile(r'\s*(?:(?P<sign>\^=|[=(),])|(?P<word>[\w.-]+)|"(?P<text>(?:[^"\\]|\\.)*)")', re.DOTALL)
_ESCAPE: Final = re.compile(rb'\\(?:(["\\])|x([0-9a-fA-F]{2})|(.?))', re.DOTALL)
_KEYWORDS: Final = frozenset(("and", "or", "not", "has", "in"))


class PropertyFilter:
    """A compiled expression."""

    def __init__(self, expression: str) -> None:
        """Raises: InvalidArgumentError - it is no expression, or longer than 1,024 bytes; the text says where."""
        size = len(expression.encode(errors="surrogatepass"))
        if size > _BYTES_MAX:
            raise InvalidArgumentError(f"a filter has at most {_BYTES_MAX} bytes, not {size}")
        self._test = _Parser(expression).parse()

    @classmethod
    def of(cls, preferences: SubscriptionPreferences) -> "PropertyFilter":
        """Make the filter that the preferences of a subscription ask for. Raises InvalidArgumentError."""
        expression = preferences.options.get(FILTER_OPTION)
        if expression is None:
            raise InvalidArgumentError(
                f"the filter {FILTER_NAME!r} needs its expression in the option {FILTER_OPTION!r}"
            )
        try:
            return cls(expression.decode())
        except UnicodeDecodeError as exc:
            raise InvalidArgumentError("the expression of a filter is not UTF-8") from exc

    def accepts(self, message: Message) -> bool:
        """Return whether a message passes. One whose properties cannot be read does."""
        try:
            properties = message.properties
        except InvalidArgumentError:
            return True
        return self._test(properties)


def with_filter(preferences: SubscriptionPreferences, expression: str) -> SubscriptionPreferences:
    """Return preferences that set the filter of a subscription, or remove it if `expression` is empty.

    Hubs merge the preferences of a request into the stored ones, option by option. So the option stays without its
    filter, and has no effect.
    """
    if not expression:
        return replace(preferences, message_filter="")
    PropertyFilter(expression)
    options = {**preferences.options, FILTER_OPTION: expression.encode()}
    return replace(preferences, message_filter=FILTER_NAME, options=options)


class _Parser:
    """Reads an expression into a function of the properties of a message."""

    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._position = 0
        """Where the next token begins."""
        self._kind = self._token = ""
        self._depth = 0
        self._go_on()

    def parse(self) -> _Test:
        test = self._any_of()
        if self._kind:
            raise self._error("'and', 'or' or the end")
        return test

    def _any_of(self) -> _Test:
        tests = [self._all_of()]
        while self._takes("word", "or"):
            tests.append(self._all_of())
        return tests[0] if len(tests) == 1 else lambda properties: any(test(properties) for test in tests)

    def _all_of(self) -> _Test:
        tests = [self._one()]
        while self._takes("word", "and"):
            tests.append(self._one())
        return tests[0] if len(tests) == 1 else lambda properties: all(test(properties) for test in tests)

    def _one(self) -> _Test:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise InvalidArgumentError(f"a filter is nested at most {_DEPTH_MAX} deep")
        try:
            if self._takes("word", "not"):
                test = self._one()
                return lambda properties: not test(properties)
            if self._takes("sign", "("):
                test = self._any_of()
                self._need("sign", ")")
                return test
            if self._takes("word", "has"):
                present = self._name()
                return lambda properties: present in properties
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> _Test:
        name = self._name()
        if self._takes("sign", "="):
            value = self._value()
            return lambda properties: properties.get(name) == value
        if self._takes("sign", "^="):
            beginning = self._value()
            return lambda properties: properties.get(name, b"").startswith(beginning) and name in properties
        if self._takes("word", "in"):
            self._need("sign", "(")
            values = {self._value()}
            while self._takes("sign", ","):
                values.add(self._value())
            self._need("sign", ")")
            return lambda properties: properties.get(name) in values
        raise self._error("'=', '^=' or 'in'")

    def _name(self) -> str:
        if self._kind == "text":
            try:
                name = _unescaped(self._token).decode()
            except UnicodeDecodeError as exc:
                raise InvalidArgumentError(f"a name in a filter is not UTF-8: {self._token!r}") from exc
        elif self._kind == "word" and self._token not in _KEYWORDS:
            name = self._token
        else:
            raise self._error("the name of a property")
        self._go_on()
        return name

    def _value(self) -> bytes:
        if self._kind != "text":
            raise self._error("a value in double quotes")
        value = _unescaped(self._token)
        self._go_on()
        return value

    def _takes(self, kind: str, token: str) -> bool:
        """Pass over the next token if it is this one; return whether it was."""
        if (self._kind, self._token) != (kind, token):
            return False
        self._go_on()
        return True

    def _need(self, kind: str, token: str) -> None:
        if not self._takes(kind, token):
            raise self._error(f"'{token}'")

    def _go_on(self) -> None:
        self._begin = self._position
        if not self._expression[self._position :].strip():
            self._kind = self._token = ""
            return
        found = _TOKEN.match(self._expression, self._position)
        if found is None:
            self._kind = "wrong"
            return
        self._kind = str(found.lastgroup)
        self._token = found[self._kind]
        self._begin, self._position = found.start(self._kind), found.end()

    def _error(self, wanted: str) -> InvalidArgumentError:
        seen = self._expression[self._begin :].strip()[:20]
        where = f"before {seen!r}" if seen else "at the end"
        return InvalidArgumentError(f"a filter needs {wanted} {where}: {self._expression}")


def _unescaped(text: str) -> bytes:
    def unescape(found: re.Match[bytes]) -> bytes:
        if found[3] is not None:
            raise InvalidArgumentError(f'a filter has a backslash before neither ", \\ nor xNN: "{text}"')
        return found[1] or bytes.fromhex(found[2].decode())

    return _ESCAPE.sub(unescape, text.encode(errors="surrogatepass"))
