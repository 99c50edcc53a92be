"""What stands in place of what was taken out, and how finds become a text without them."""

import re
from collections.abc import Iterable
from typing import NamedTuple

MASK = "[REDACTED:SECRET]"
EMAIL, PHONE, IP = "[REDACTED:EMAIL]", "[REDACTED:PHONE]", "[REDACTED:IP]"
#: For what could not be looked at: too deep, too large, or an error inside.
UNREADABLE = "[REDACTED:UNREADABLE]"
MASKED = re.compile(r"\[REDACTED:[A-Z]{1,12}\]")
#: Half of a JSON escape before a find: left behind, it would make `\[` of the mask.
HALF_ESCAPE = re.compile(r"\\(?:u[0-9A-Fa-f]{0,3})?\Z")
LONGEST_HALF = 5


class Find(NamedTuple):
    """`start` to `end` goes; `first` to `last` is all that had to be read to know it."""

    start: int
    end: int
    first: int
    last: int
    mask: str = MASK


def find(start: int, end: int, *, first: int | None = None, last: int | None = None, mask: str = MASK) -> Find:
    return Find(start, end, start if first is None else first, end if last is None else last, mask)


def merged(text: str, finds: Iterable[Find]) -> list[Find]:
    """In order and apart from each other: of two that overlap, the wider one says which mask."""
    earlier = [find(*match.span(), mask=match[0]) for match in MASKED.finditer(text)] if "[REDACTED:" in text else []
    kept: list[Find] = []
    for item in sorted([*earlier, *(_whole(text, found) for found in finds)]):
        if kept and item.start < kept[-1].end:
            kept[-1] = _union(kept[-1], item)
        else:
            kept.append(item)
    return kept


def replaced(text: str, finds: Iterable[Find]) -> str:
    parts, at = [], 0
    for item in finds:
        parts += [text[at : item.start], item.mask]
        at = item.end
    return "".join([*parts, text[at:]])


def _union(one: Find, other: Find) -> Find:
    wider = one if one.end - one.start >= other.end - other.start else other
    return Find(one.start, max(one.end, other.end), min(one.first, other.first), max(one.last, other.last), wider.mask)


def _whole(text: str, item: Find) -> Find:
    """Backslashes that begin an escape go with it: all of them, because JSON in JSON has several for each."""
    half = HALF_ESCAPE.search(text, max(0, item.start - LONGEST_HALF), item.start)
    if half is None:
        return item
    at = half.start()
    while at and text[at - 1] == "\\":
        at -= 1
    return item._replace(start=at, first=min(at, item.first))
