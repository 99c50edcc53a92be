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
    """The part of a text from `start` to `end` to replace by a mask, and the context that shows that it is a secret."""

    start: int
    end: int
    context_start: int
    context_end: int
    mask: str = MASK


def make_span(
    start: int, end: int, *, context_start: int | None = None, context_end: int | None = None, mask: str = MASK
) -> SecretSpan:
    return SecretSpan(
        start, end, start if context_start is None else context_start, end if context_end is None else context_end, mask
    )


def merge_spans(text: str, spans: Iterable[SecretSpan]) -> list[SecretSpan]:
    """Sort spans and merge those that overlap; the wider of two spans sets the mask."""
    existing_masks = (
        [make_span(*match.span(), mask=match[0]) for match in MASK_PATTERN.finditer(text)]
        if "[REDACTED:" in text
        else []
    )
    merged: list[SecretSpan] = []
    for span in sorted([*existing_masks, *(_extend_over_escape(text, new_span) for new_span in spans)]):
        if merged and span.start < merged[-1].end:
            merged[-1] = _merge_overlapping(merged[-1], span)
        else:
            merged.append(span)
    return merged


def replace_spans(text: str, spans: Iterable[SecretSpan]) -> str:
    parts, at = [], 0
    for span in spans:
        parts += [text[at : span.start], span.mask]
        at = span.end
    return "".join([*parts, text[at:]])


def _merge_overlapping(first: SecretSpan, second: SecretSpan) -> SecretSpan:
    wider = first if first.end - first.start >= second.end - second.start else second
    return SecretSpan(
        first.start,
        max(first.end, second.end),
        min(first.context_start, second.context_start),
        max(first.context_end, second.context_end),
        wider.mask,
    )


def _extend_over_escape(text: str, span: SecretSpan) -> SecretSpan:
    """Extend a span over the start of an escape before it, with all backslashes: nested JSON has several for each."""
    match = HALF_ESCAPE.search(text, max(0, span.start - MAX_HALF_ESCAPE_LENGTH), span.start)
    if match is None:
        return span
    at = match.start()
    while at and text[at - 1] == "\\":
        at -= 1
    return span._replace(start=at, context_start=min(at, span.context_start))
