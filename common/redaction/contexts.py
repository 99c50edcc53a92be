"""Secrets that are told by what stands before them: an authorization scheme, a URL, a name.

The words are found with `str.find`; the patterns behind them are possessive or bounded, so that no text makes one of
them look twice at more than a bounded piece.
"""

import re
from collections.abc import Iterator

from common.redaction.masks import MASK, Find, find
from common.redaction.names import is_secret
from common.redaction.tokens import glued

CREDENTIALS = re.compile(r"\s{1,32}+([A-Za-z0-9._~+/=-]{8,}+)")
#: Something that no word of a sentence has: "basic housekeeping" stays.
NO_WORD = re.compile(r"[0-9+=_]|[a-z][A-Z]")
AUTHORITY = re.compile(r"[^\s/\"<>\\']{1,1024}+(?:'(?![,\]})\s:])[^\s/\"<>\\']{1,1024}+)*+")
#: Every name that counts holds one of these.
WORDS = (
    "passw", "passphrase", "secret", "token", "apikey", "api_key", "api-key", "authorization", "cookie", "sessionid",
    "privatekey", "private_key", "private-key", "pepper", "otp", "recovery", "sharedaccesskey", "accountkey",
)  # fmt: skip
NAME_BEFORE = re.compile(r"[\w.-]{0,64}+")
NAME_AFTER = re.compile(r"[\w.-]{0,64}+")
#: `"name": "`, also inside a string of JSON, where each quote has backslashes before it.
QUOTED = re.compile(r"(?P<slashes>\\{0,15}+)(?P<quote>[\"'])[ \t]{0,8}+:[ \t]{0,8}+")
QUOTE = re.compile(r"(\\*+)([\"'])")
NUMBER = re.compile(r"-?[0-9][0-9.eE+-]{0,40}+")
ASSIGNED = re.compile(r"(?P<sign>=|:[ \t]{1,8}+)[\"']?(?P<value>[^\s&;,\"'<>()\[\]{}|\\]{4,}+)")
#: Names of keys in connection strings of the clouds, which `names` does not know.
KEYS = re.compile(r"(?i)(?:sharedaccess|account)key\Z")
RANDOM = re.compile(r"[0-9!@#$^*+=~?]")
#: `host=db password=correcthorse`: a connection string, in which a password may be a plain word.
CONNECTION = re.compile(r"(?i)(?:host|server|data source|dbname|database|user|uid|user id|endpoint)=")
#: In running text a digest is a name of something public, unlike in the structures we write ourselves.
PUBLIC = re.compile(r"(?i)digest")


def finds(text: str) -> Iterator[Find]:
    lower = _lower(text)
    for word in ("bearer", "basic"):
        if word in lower:
            yield from _credentials(text, lower, word)
    if "://" in text:
        yield from _passwords(text)
    if "=" in text or ":" in text:
        connection = None
        for word in WORDS:
            if word in lower:
                connection = bool(CONNECTION.search(text)) if connection is None else connection
                yield from _named(text, lower, word, connection)


def _lower(text: str) -> str:
    """In small letters, each character in its place; some letters become two."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(small if len(small := mark.lower()) == 1 else mark for mark in text)


def _places(text: str, word: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + len(word))


def _credentials(text: str, lower: str, word: str) -> Iterator[Find]:
    for at in _places(lower, word):
        match = CREDENTIALS.match(text, at + len(word))
        if match and not glued(text, at) and NO_WORD.search(match[1]):
            yield find(*match.span(1), first=at)


def _passwords(text: str) -> Iterator[Find]:
    for at in _places(text, "://"):
        match = AUTHORITY.match(text, at + 3)
        if match is None or not at or not text[at - 1].isalnum():
            continue
        start, end = match.span()
        host = text.rfind("@", start, end)
        masked = text.find("]", start, end) if text.startswith("[REDACTED:", start) else start
        colon = text.find(":", masked, host) if host >= 0 and masked >= 0 else -1
        if 0 <= colon < host - 1:
            yield find(colon + 1, host, first=at, last=end)


def _named(text: str, lower: str, word: str, connection: bool) -> Iterator[Find]:
    for at in _places(lower, word):
        before = NAME_BEFORE.match(text[max(0, at - 64) : at][::-1])
        after = NAME_AFTER.match(text, at + len(word))
        assert before is not None  # both match an empty text
        assert after is not None
        first, name_end = at - before.end(), after.end()
        name = text[first:name_end]
        if PUBLIC.search(name):
            continue
        if quoted := QUOTED.match(text, name_end):
            yield from _quoted(text, name, first, quoted)
        elif assigned := ASSIGNED.match(text, name_end):
            yield from _assigned(name, first, assigned, connection)


def _quoted(text: str, name: str, first: int, opened: re.Match[str]) -> Iterator[Find]:
    slashes, quote, at = opened["slashes"], opened["quote"], opened.end()
    opening = slashes + quote
    if text.startswith(opening, at) or (not slashes and text[at : at + 1] in ('"', "'")):
        quote = text[at + len(slashes) : at + len(slashes) + 1]
        start = at + len(slashes) + 1
        end = _closing(text, start, len(slashes), quote)
        if end > start and is_secret(name, ""):
            yield find(start, end, first=first, last=end + len(slashes) + 1)
    elif (number := NUMBER.match(text, at)) and is_secret(name, 0):
        yield find(*number.span(), first=first, mask=f"{opening}{MASK}{opening}")


def _closing(text: str, at: int, slashes: int, quote: str) -> int:
    """Where the string ends: at its quote, which has as many backslashes as the opening one beside escaped ones."""
    line = text.find("\n", at)
    line = len(text) if line < 0 else line
    for match in QUOTE.finditer(text, at, line):
        if match[2] == quote and len(match[1]) % (2 * (slashes + 1)) == slashes:
            return match.end() - 1 - slashes
    return line


def _assigned(name: str, first: int, match: re.Match[str], connection: bool) -> Iterator[Find]:
    value = match["value"]
    telling = RANDOM.search(value) or (connection and match["sign"] == "=")
    if telling and (is_secret(name, "") or KEYS.search(name)) and (match["sign"] == "=" or len(value) >= 6):
        yield find(*match.span("value"), first=first)
