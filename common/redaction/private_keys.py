"""Private keys in PEM: over many lines, with `\\n` for the line ends, on one line, and cut off."""

import re
from collections.abc import Iterator

from common.redaction.masks import SecretSpan, make_span

KEY_MARKER = "-----BEGIN "
BEGIN_LINE = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
END_LINE = re.compile(r"-----END (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
#: What a key without an end is made of. A short piece belongs to it when its line ends there: prose has other words.
KEY_BODY = re.compile(
    r"(?:[ \t\r\n]|\\+[nr]|[A-Za-z0-9+/]{16,}+={0,2}|(?:Proc-Type|DEK-Info|Version|Comment):[^\n\\\"']*+"
    r"|[A-Za-z0-9+/]{1,15}+={0,2}(?=\\|\s*\n|\s*-----END|[\"']|\Z))*+"
)
#: The text ends inside of the end line.
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
    """Where a key ends whose end line is far, or cut off, or missing."""
    match = KEY_BODY.match(text, at)
    assert match is not None  # it matches an empty text
    end = END_LINE.match(text, match.end()) or TRUNCATED_END_LINE.match(text, match.end())
    return end.end() if end else match.end()


def find_unfinished_key(text: str) -> int:
    """Where the last key begins that has not ended, or -1."""
    at = text.rfind(KEY_MARKER)
    while at >= 0:
        if BEGIN_LINE.match(text, at):
            return -1 if END_LINE.search(text, at) else at
        at = text.rfind(KEY_MARKER, 0, at)
    return -1
