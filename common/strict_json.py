"""A JSON reader that refuses ambiguous input.

Python's reader accepts duplicate keys, NaN, numbers that overflow, lone surrogates and any depth. If two parsers read
such a text differently, a check can pass for one value and the operation use another. All of these are refused.
"""

import json
import math
from typing import Any, NoReturn

MAX_DEPTH = 64
#: Integers of 64 bits, signed or unsigned; parsers disagree about larger ones.
MIN_INTEGER, MAX_INTEGER = -(2**63), 2**64 - 1
MAX_INTEGER_LENGTH = 20
#: Enough for any request; checking more values would take too long.
MAX_VALUES = 200_000


class StrictJsonError(ValueError):
    """The text is refused; the message is a sentence with the reason."""


def loads(raw: bytes) -> Any:
    """Parse JSON encoded in UTF-8."""
    try:
        value = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_read_object,
            parse_int=_read_integer,
            parse_float=_read_float,
            parse_constant=_refuse_constant,
        )
    except StrictJsonError:
        raise
    except UnicodeDecodeError as error:
        raise StrictJsonError("The body is not UTF-8.") from error
    except RecursionError as error:
        raise StrictJsonError(_describe_depth()) from error
    except ValueError as error:
        raise StrictJsonError(f"The body is not JSON: {_describe_error(error)}.") from error
    _check_value(value, raw)
    return value


def _check_value(value: Any, raw: bytes) -> None:
    """Check depth, number of values and strings; skipped when the raw text shows that no check can fail."""
    if raw.count(b"[") + raw.count(b"{") <= MAX_DEPTH and b"\\u" not in raw:
        return
    pending, count = [(value, 1)], 0
    while pending:
        item, depth = pending.pop()
        count += 1
        if count > MAX_VALUES:
            raise StrictJsonError(f"The body holds more than {MAX_VALUES} values.")
        if isinstance(item, str):
            _check_string(item)
        elif isinstance(item, dict | list):
            if depth > MAX_DEPTH:
                raise StrictJsonError(_describe_depth())
            children = (*item.keys(), *item.values()) if isinstance(item, dict) else item
            pending.extend((child, depth + 1) for child in children)


def _check_string(text: str) -> None:
    if "\x00" in text:
        raise StrictJsonError("A string holds the character U+0000, which cannot be stored.")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise StrictJsonError("A string holds half of a surrogate pair.")


def _read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise StrictJsonError("A name stands twice in one object.")
    return result


def _read_integer(text: str) -> int:
    value = int(text) if len(text) <= MAX_INTEGER_LENGTH else MAX_INTEGER + 1
    if not MIN_INTEGER <= value <= MAX_INTEGER:
        raise StrictJsonError("A whole number is too large.")
    return value


def _read_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise StrictJsonError("A number is too large.")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise StrictJsonError(f"{name} is not JSON.")


def _describe_depth() -> str:
    return f"The body is nested deeper than {MAX_DEPTH} levels."


def _describe_error(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} (line {error.lineno}, column {error.colno})"
    return "it cannot be read"
