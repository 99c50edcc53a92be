"""Finds secrets known by value, in every encoding in which a program may print them."""

import base64
import html
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote, quote_plus

from common.redaction.masks import MASK_PATTERN, SecretSpan, make_span

#: A shorter value would occur in ordinary words.
MIN_SECRET_LENGTH = 6
#: Longer values are searched in pieces, so that a part is found too and a stream need not buffer the whole value.
PIECE_LENGTH = 1024
BASE64_ALPHABET = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_")


@dataclass(frozen=True, repr=False)
class EncodedForm:
    """One encoding of a secret, or a piece of it, as it is searched for in text."""

    text: str
    #: Adjacent characters with some bits of the secret: base64 characters do not end at byte boundaries.
    bits_before: int = 0
    bits_after: int = 0


@lru_cache(maxsize=128)
def encode_forms(values: frozenset[str]) -> tuple[EncodedForm, ...]:
    forms = {form for value in values if len(value) >= MIN_SECRET_LENGTH for form in _encode_value(value)}
    # A value that is part of a mask is not masked: redaction would find it again in every round.
    return tuple(sorted((form for form in forms if not _is_part_of_mask(form.text)), key=lambda form: form.text))


def find_spans(text: str, forms: list[EncodedForm]) -> Iterator[SecretSpan]:
    for form in forms:
        yield from _find_form_spans(form, text)


def _find_form_spans(form: EncodedForm, text: str) -> Iterator[SecretSpan]:
    at = text.find(form.text)
    while at >= 0:
        start, end = at, at + len(form.text)
        start -= form.bits_before if text[max(0, start - 1) : start] in BASE64_ALPHABET else 0
        end += form.bits_after if text[end : end + 1] in BASE64_ALPHABET else 0
        yield make_span(start, end)
        # A repetitive value may occur again before its end; the last such occurrence covers the others.
        overlapping = text.rfind(form.text, at + 1, at + 2 * len(form.text) - 1)
        at = overlapping if overlapping >= 0 else text.find(form.text, at + len(form.text))


def find_partial_value(text: str, forms: Iterable[EncodedForm]) -> int:
    """The start of a form that the end of the text cuts off, or the length of the text."""
    return min((_find_partial_form(text, form) for form in forms), default=len(text))


def _find_partial_form(text: str, form: EncodedForm) -> int:
    at = text.find(form.text[0], max(0, len(text) - len(form.text)))
    while at >= 0 and not form.text.startswith(text[at:]):
        at = text.find(form.text[0], at + 1)
    if at < 0:
        return len(text)
    return max(0, at - form.bits_before) if text[max(0, at - 1) : at] in BASE64_ALPHABET else at


def _encode_value(value: str) -> Iterator[EncodedForm]:
    raw = value.encode("utf-8", "surrogatepass")
    for text in {value, *_escape_json(value), *_quote_url(raw), raw.hex(), raw.hex().upper(), html.escape(value)}:
        yield from (EncodedForm(piece) for piece in _split_into_pieces(text))
    for offset in range(3):
        yield from _encode_base64(raw, offset)


def _escape_json(value: str) -> Iterator[str]:
    for ascii_only in (True, False):
        escaped = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        yield from (escaped, escaped.replace("/", "\\/"), json.dumps(escaped)[1:-1])


def _quote_url(raw: bytes) -> Iterator[str]:
    for text in (quote(raw, safe=""), quote(raw), quote_plus(raw)):
        yield from (text, _lower_percent_escapes(text))


def _lower_percent_escapes(text: str) -> str:
    first, *parts = text.split("%")
    return "%".join([first, *(part[:2].lower() + part[2:] for part in parts)])


def _encode_base64(raw: bytes, offset: int) -> Iterator[EncodedForm]:
    """The characters that depend only on the secret if `offset` bytes precede it in a group of three."""
    lead = (0, 2, 3)[offset]
    rest = (offset + len(raw)) % 3
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        text = encode(b"\0" * offset + raw).decode().rstrip("=")
        core = text[lead : len(text) - (1 if rest else 0)]
        pieces = list(_split_into_pieces(core))
        for number, piece in enumerate(pieces):
            yield EncodedForm(piece, int(bool(offset) and number == 0), int(bool(rest) and number == len(pieces) - 1))


def _split_into_pieces(text: str) -> Iterator[str]:
    count = max(1, len(text) // PIECE_LENGTH)
    for number in range(count):
        yield text[number * PIECE_LENGTH : (number + 1) * PIECE_LENGTH if number < count - 1 else None]


def _is_part_of_mask(text: str) -> bool:
    masks = ("[REDACTED:SECRET]", "[REDACTED:EMAIL]", "[REDACTED:PHONE]", "[REDACTED:IP]", "[REDACTED:UNREADABLE]")
    return any(text in mask for mask in masks) or bool(MASK_PATTERN.fullmatch(text))
