"""RFC 8785 canonical JSON: one text for one value, so that hashes and MACs mean something."""

import math
from decimal import Decimal
from typing import Any


class NotCanonical(ValueError):
    """The value has no canonical JSON: NaN, infinity, a lone surrogate, or a type JSON does not know."""


ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def encode(value: Any) -> bytes:
    try:
        return _text(value).encode()
    except UnicodeEncodeError as error:
        raise NotCanonical("A string holds half of a surrogate pair.") from error
    except RecursionError as error:
        raise NotCanonical("The value is nested too deep.") from error


def _text(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return _string(value)
        case int() | float():
            return _number(value)
        case dict():
            return _object(value)
        case list() | tuple():
            return f"[{','.join(_text(item) for item in value)}]"
    raise NotCanonical(f"JSON has no {type(value).__name__}.")


def _object(value: dict[Any, Any]) -> str:
    if not all(isinstance(key, str) for key in value):
        raise NotCanonical("The names of an object are strings.")
    # Names are ordered by their UTF-16 code units (RFC 8785, 3.2.3).
    names = sorted(value, key=lambda name: name.encode("utf-16-be"))
    return "{" + ",".join(f"{_string(name)}:{_text(value[name])}" for name in names) + "}"


def _string(value: str) -> str:
    return '"' + "".join(ESCAPES.get(mark) or (mark if mark >= " " else f"\\u{ord(mark):04x}") for mark in value) + '"'


def _number(value: float) -> str:
    """ECMAScript's Number to string (RFC 8785, 3.2.2.3); a whole number past 2**53 is one of its doubles."""
    if isinstance(value, int):
        return str(value) if abs(value) <= 2**53 else _number(_float(value))
    if not math.isfinite(value):
        raise NotCanonical("JSON has no NaN and no infinity.")
    if value == 0:
        return "0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    point = len(digits) + int(exponent)
    return ("-" if sign else "") + _place("".join(map(str, digits)), point)


def _float(value: int) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise NotCanonical("The number is too large.") from error


def _place(digits: str, point: int) -> str:
    count = len(digits)
    if count <= point <= 21:
        return digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    power = point - 1
    mantissa = digits if count == 1 else f"{digits[0]}.{digits[1:]}"
    return f"{mantissa}e{'+' if power > 0 else '-'}{abs(power)}"
