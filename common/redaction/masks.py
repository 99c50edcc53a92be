"""Mask texts, spans of secrets, and replacing spans by masks."""

import re
from collections.abc import Iterable
from typing import NamedTuple

MASK = "[REDACTED:SECRET]"
EMAIL, PHONE, IP = "[REDACTED:EMAIL]", "[REDACTED:PHONE]", "[REDACTED:IP]"
#: For a value that could not be examined: too deep, too large, or an error during redaction.
UNREADABLE = "[REDACTED:UNREADABLE]"
MASK_PATTERN = re.compile(r"\[REDACTED:[A-Z]{1,12}\]")
#: An incomplete JSON escape before a span: together with the mask it would become `\[`.
HALF_ESCAPE = re.compile(r"\\(?:u[0-9A-Fa-f]{0,3})?\Z")
MAX_HALF_ESCAPE_LENGTH = 5


class SecretSpan(NamedTuple):
    """The text from `start` to `end` is replaced. It is a secret because of `context_start` to `context_end`."""

    start: int
    end: int
    context_start: int
    context_end: int
    mask: str = MASK


def make_span(
    start: int, end: int, *, first: int | None = None, last: int | None = None, mask: str = MASK
) -> SecretSpan:
    return SecretSpan(start, end, start if first is None else first, end if last is None else last, mask)


def merge_spans(text: str, finds: Iterable[SecretSpan]) -> list[SecretSpan]:
    """Sort spans and merge those that overlap; the wider of two spans sets the mask."""
    earlier = (
        [make_span(*match.span(), mask=match[0]) for match in MASK_PATTERN.finditer(text)]
        if "[REDACTED:" in text
        else []
    )
    kept: list[SecretSpan] = []
    for item in sorted([*earlier, *(_extend_over_escape(text, found) for found in finds)]):
        if kept and item.start < kept[-1].end:
            kept[-1] = _merge_overlapping(kept[-1], item)
        else:
            kept.append(item)
    return kept


def replace_spans(text: str, finds: Iterable[SecretSpan]) -> str:
    parts, at = [], 0
    for item in finds:
        parts += [text[at : item.start], item.mask]
        at = item.end
    return "".join([*parts, text[at:]])


def _merge_overlapping(one: SecretSpan, other: SecretSpan) -> SecretSpan:
    wider = one if one.end - one.start >= other.end - other.start else other
    return SecretSpan(
        one.start,
        max(one.end, other.end),
        min(one.context_start, other.context_start),
        max(one.context_end, other.context_end),
        wider.mask,
    )


def _extend_over_escape(text: str, item: SecretSpan) -> SecretSpan:
    """Extend a span over the start of an escape before it, with all backslashes: nested JSON has several for each."""
    half = HALF_ESCAPE.search(text, max(0, item.start - MAX_HALF_ESCAPE_LENGTH), item.start)
    if half is None:
        return item
    at = half.start()
    while at and text[at - 1] == "\\":
        at -= 1
    return item._replace(start=at, context_start=min(at, item.context_start))
