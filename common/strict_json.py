"""JSON as a gate must read it: one meaning for one text, or none.

Python's reader takes duplicate keys, NaN, numbers that overflow, half surrogates and any depth. Whoever decides on one
reading of a text and acts on another can be fooled, so all of these are refused.
"""

import json
import math
from typing import Any, NoReturn

DEEPEST = 64
#: Whole numbers of 64 bits, with a sign or without; others are read in one way here and in another there.
LEAST_INTEGER, MOST_INTEGER = -(2**63), 2**64 - 1
LONGEST_INTEGER = 20
#: Enough for any request; looking into more would take longer than a request is worth.
MOST_VALUES = 200_000


class NotStrict(ValueError):
    """Why the text is refused, as a sentence."""


def loads(raw: bytes) -> Any:
    """The value that `raw` spells, in UTF-8."""
    try:
        value = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=_constant,
        )
    except NotStrict:
        raise
    except UnicodeDecodeError as error:
        raise NotStrict("The body is not UTF-8.") from error
    except RecursionError as error:
        raise NotStrict(_too_deep()) from error
    except ValueError as error:
        raise NotStrict(f"The body is not JSON: {_said(error)}.") from error
    _check(value, raw)
    return value


def _check(value: Any, raw: bytes) -> None:
    """Walk the value, unless the text shows at once that there is nothing to find."""
    if raw.count(b"[") + raw.count(b"{") <= DEEPEST and b"\\u" not in raw:
        return
    left, seen = [(value, 1)], 0
    while left:
        item, depth = left.pop()
        seen += 1
        if seen > MOST_VALUES:
            raise NotStrict(f"The body holds more than {MOST_VALUES} values.")
        if isinstance(item, str):
            _text(item)
        elif isinstance(item, dict | list):
            if depth > DEEPEST:
                raise NotStrict(_too_deep())
            inside = (*item.keys(), *item.values()) if isinstance(item, dict) else item
            left.extend((part, depth + 1) for part in inside)


def _text(text: str) -> None:
    if "\x00" in text:
        raise NotStrict("A string holds the character U+0000, which cannot be stored.")
    if any("\ud800" <= mark <= "\udfff" for mark in text):
        raise NotStrict("A string holds half of a surrogate pair.")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise NotStrict("A name stands twice in one object.")
    return made


def _integer(text: str) -> int:
    value = int(text) if len(text) <= LONGEST_INTEGER else MOST_INTEGER + 1
    if not LEAST_INTEGER <= value <= MOST_INTEGER:
        raise NotStrict("A whole number is too large.")
    return value


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise NotStrict("A number is too large.")
    return value


def _constant(name: str) -> NoReturn:
    raise NotStrict(f"{name} is not JSON.")


def _too_deep() -> str:
    return f"The body is nested deeper than {DEEPEST} levels."


def _said(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} (line {error.lineno}, column {error.colno})"
    return "it cannot be read"
