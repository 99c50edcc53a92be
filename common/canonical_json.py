"""RFC 8785 canonical JSON: the same value always has the same text, as hashes and MACs require."""

import math
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any


class CanonicalizationError(ValueError):
    """The value has no canonical JSON: NaN, infinity, a lone surrogate, or a type that JSON does not have."""


# Escapes only the characters that JSON must escape (RFC 8785, 3.2.2.2). Implemented in C.
_encode_string = encode_basestring


def encode(value: Any) -> bytes:
    try:
        return _encode_value(value).encode()
    except UnicodeEncodeError as error:
        raise CanonicalizationError("A string holds half of a surrogate pair.") from error
    except RecursionError as error:
        raise CanonicalizationError("The value is nested too deep.") from error


def _encode_value(value: Any) -> str:
    kind = type(value)
    if kind is str:
        return _encode_string(value)
    if kind is dict:
        return _encode_object(value)
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    return _encode_rare_type(value)


def _encode_rare_type(value: Any) -> str:
    """Encode the less frequent types, and subclasses of the frequent ones."""
    match value:
        case str():
            return _encode_string(str(value))
        case int() | float():
            return _encode_number(value)
        case dict():
            return _encode_object(value)
        case list() | tuple():
            return f"[{','.join([_encode_value(item) for item in value])}]"
    raise CanonicalizationError(f"JSON has no {type(value).__name__}.")


def _encode_object(value: dict[Any, Any]) -> str:
    try:
        is_ascii = "".join(value).isascii()
    except TypeError as error:
        raise CanonicalizationError("The names of an object are strings.") from error
    # Names are sorted by UTF-16 code units (RFC 8785, 3.2.3). For ASCII names this is the order of Python strings.
    names = sorted(value) if is_ascii else sorted(value, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
    return "{" + ",".join([f"{_encode_string(name)}:{_encode_value(value[name])}" for name in names]) + "}"


def _encode_number(value: float) -> str:
    """Format a number as ECMAScript does (RFC 8785, 3.2.2.3); integers beyond 2**53 are converted to doubles."""
    if isinstance(value, int):
        return str(value) if abs(value) <= 2**53 else _encode_number(_to_double(value))
    if not math.isfinite(value):
        raise CanonicalizationError("JSON has no NaN and no infinity.")
    if value == 0:
        return "0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    point = len(digits) + int(exponent)
    return ("-" if sign else "") + _place_decimal_point("".join(map(str, digits)), point)


def _to_double(value: int) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise CanonicalizationError("The number is too large.") from error


def _place_decimal_point(digits: str, point: int) -> str:
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
