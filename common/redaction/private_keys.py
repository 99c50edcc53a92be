"""Finds PEM private keys: with line ends, with `\\n` as text, on one line, and truncated."""

import re
from collections.abc import Iterator

from common.redaction.masks import SecretSpan, make_span

KEY_MARKER = "-----BEGIN "
BEGIN_LINE = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
END_LINE = re.compile(r"-----END (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
#: The content of a key without an end line. A short piece belongs to the key only at the end of a line, unlike words.
KEY_BODY = re.compile(
    r"(?:[ \t\r\n]|\\+[nr]|[A-Za-z0-9+/]{16,}+={0,2}|(?:Proc-Type|DEK-Info|Version|Comment):[^\n\\\"']*+"
    r"|[A-Za-z0-9+/]{1,15}+={0,2}(?=\\|\s*\n|\s*-----END|[\"']|\Z))*+"
)
#: An end line that the end of the text cuts off.
TRUNCATED_END_LINE = re.compile(r"-{1,5}+[A-Z0-9 ]{0,60}+-{0,4}\Z")
#: A key of 16384 bits has 12.5 kB.
MAX_KEY_LENGTH = 16 * 1024


def find_spans(text: str) -> Iterator[SecretSpan]:
    end, begin = -1, BEGIN_LINE.search(text)
    while begin:
        following = BEGIN_LINE.search(text, begin.end())
        if 0 <= end < begin.end():
            end = -1
        if end == -1:
            closing = END_LINE.search(text, begin.end())
            end = closing.end() if closing else len(text) + MAX_KEY_LENGTH + 1
        limit = following.start() if following else len(text)
        stop = end if end <= min(limit, begin.end() + MAX_KEY_LENGTH) else find_body_end(text, begin.end())
        yield make_span(begin.start(), stop)
        begin = following


def find_body_end(text: str, at: int) -> int:
    """The end of a key whose end line is too far away, truncated or missing."""
    match = KEY_BODY.match(text, at)
    assert match is not None  # the pattern matches an empty text
    end = END_LINE.match(text, match.end()) or TRUNCATED_END_LINE.match(text, match.end())
    return end.end() if end else match.end()


def find_unfinished_key(text: str) -> int:
    """The start of the last key without an end line, or -1."""
    at = text.rfind(KEY_MARKER)
    while at >= 0:
        if BEGIN_LINE.match(text, at):
            return -1 if END_LINE.search(text, at) else at
        at = text.rfind(KEY_MARKER, 0, at)
    return -1
