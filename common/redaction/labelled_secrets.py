"""Finds secrets by the text before them: an authorization scheme, a URL, a name.

The words are found with `str.find`; the patterns after them are possessive or bounded, so that backtracking is limited
in any text.
"""

import re
from collections.abc import Iterator

from common.redaction.masks import MASK, SecretSpan, make_span
from common.redaction.secret_names import is_secret_name
from common.redaction.token_patterns import is_inside_word

AUTHORIZATION_SCHEMES = ("bearer", "basic")
SCHEME_CREDENTIALS = re.compile(r"\s{1,32}+([A-Za-z0-9._~+/=-]{8,}+)")
#: A character that words do not have: "basic housekeeping" is not redacted.
NON_WORD_MARK = re.compile(r"[0-9+=_]|[a-z][A-Z]")
URL_AUTHORITY = re.compile(r"[^\s/\"<>\\']{1,1024}+(?:'(?![,\]})\s:])[^\s/\"<>\\']{1,1024}+)*+")
#: Every secret name contains one of these.
SECRET_WORDS = (
    "passw", "passphrase", "secret", "token", "apikey", "api_key", "api-key", "authorization", "cookie", "sessionid",
    "privatekey", "private_key", "private-key", "pepper", "otp", "recovery", "sharedaccesskey", "accountkey",
)  # fmt: skip
#: Separators between a name and its value, other than `=`. Times, URLs and paths do not contain them.
NAME_VALUE_SIGN = re.compile(r":[ \t]|[\"'][ \t]{0,8}:")
NAME_BEFORE = re.compile(r"[\w.-]{0,64}+")
NAME_AFTER = re.compile(r"[\w.-]{0,64}+")
#: The end of a quoted name, `": `, also inside a JSON string, where each quote has backslashes before it.
QUOTED_NAME_END = re.compile(r"(?P<slashes>\\{0,15}+)(?P<quote>[\"'])[ \t]{0,8}+:[ \t]{0,8}+")
QUOTE = re.compile(r"(\\*+)([\"'])|\n")
NUMBER = re.compile(r"-?[0-9][0-9.eE+-]{0,40}+")
ASSIGNED_VALUE = re.compile(
    r"(?P<sign>=|[ \t]{1,8}+=[ \t]{1,8}+|:[ \t]{1,8}+)[\"']?(?P<value>[^\s&;,\"'<>()\[\]{}|\\]{4,}+)"
)
#: After a space, a shorter value may be the next word of a sentence.
MIN_SPACED_VALUE_LENGTH = 6
#: Names of keys in connection strings of cloud services, which `secret_names` does not contain.
CLOUD_KEY_NAMES = re.compile(r"(?i)(?:sharedaccess|account)key\Z")
NON_LETTER_MARK = re.compile(r"[0-9!@#$^*+=~?]")
#: Parts of a connection string such as `host=db password=correcthorse`, whose password may be a plain word.
CONNECTION_STRING_PARTS = (
    "host=",
    "server=",
    "data source=",
    "dbname=",
    "database=",
    "user=",
    "uid=",
    "user id=",
    "endpoint=",
)
MAX_CONNECTION_DISTANCE = 256
#: In free text a digest is public, unlike in the structures that Gatehouse writes itself.
PUBLIC_NAMES = re.compile(r"(?i)digest")


def find_spans(text: str) -> list[SecretSpan]:
    lower, spans = _lower_keeping_length(text), list[SecretSpan]()
    for word in AUTHORIZATION_SCHEMES:
        if word in lower:
            spans += _find_scheme_credentials(text, lower, word)
    if "://" in text:
        spans += _find_url_passwords(text)
    if "=" in text or (":" in text and NAME_VALUE_SIGN.search(text)):
        for word in SECRET_WORDS:
            if word in lower:
                spans += _find_values_by_name(text, lower, word)
    return spans


def _lower_keeping_length(text: str) -> str:
    """Convert to lower case, except for letters whose lower case has two characters: positions stay the same."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(lowered if len(lowered := character.lower()) == 1 else character for character in text)


def _find_occurrences(text: str, word: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + len(word))


def _find_scheme_credentials(text: str, lower: str, word: str) -> Iterator[SecretSpan]:
    for at in _find_occurrences(lower, word):
        match = SCHEME_CREDENTIALS.match(text, at + len(word))
        if match and not is_inside_word(text, at) and NON_WORD_MARK.search(match[1]):
            yield make_span(*match.span(1), context_start=at)


def _find_url_passwords(text: str) -> Iterator[SecretSpan]:
    for at in _find_occurrences(text, "://"):
        match = URL_AUTHORITY.match(text, at + 3)
        if match is None or not at or not text[at - 1].isalnum():
            continue
        start, end = match.span()
        host = text.rfind("@", start, end)
        masked = text.find("]", start, end) if text.startswith("[REDACTED:", start) else start
        colon = text.find(":", masked, host) if host >= 0 and masked >= 0 else -1
        if 0 <= colon < host - 1:
            yield make_span(colon + 1, host, context_start=at, context_end=end)


def _find_values_by_name(text: str, lower: str, word: str) -> Iterator[SecretSpan]:
    at = lower.find(word)
    while at >= 0:
        before = NAME_BEFORE.match(text[max(0, at - 64) : at][::-1])
        after = NAME_AFTER.match(text, at + len(word))
        assert before is not None  # both patterns match an empty text
        assert after is not None
        name_start, name_end = at - before.end(), after.end()
        name = text[name_start:name_end]
        if (is_secret_name(name, "") or CLOUD_KEY_NAMES.search(name)) and not PUBLIC_NAMES.search(name):
            if quoted := QUOTED_NAME_END.match(text, name_end):
                span = _quoted_value_span(text, name, name_start, quoted)
            else:
                span = _assigned_value_span(text, name, name_start, name_end)
            if span:
                yield span
                name_end = span.end
        at = lower.find(word, name_end)


def _quoted_value_span(text: str, name: str, name_start: int, opening_match: re.Match[str]) -> SecretSpan | None:
    slashes, at = opening_match["slashes"], opening_match.end()
    quote = text[at + len(slashes) : at + len(slashes) + 1]
    if quote in ('"', "'") and text.startswith(slashes, at):
        start = at + len(slashes) + 1
        end = _find_closing_quote(text, start, len(slashes), quote)
        return (
            make_span(start, end, context_start=name_start, context_end=end + len(slashes) + 1) if end > start else None
        )
    if (number := NUMBER.match(text, at)) and is_secret_name(name, 0):
        opening = slashes + opening_match["quote"]
        return make_span(*number.span(), context_start=name_start, mask=f"{opening}{MASK}{opening}")
    return None


def _find_closing_quote(text: str, at: int, slashes: int, quote: str) -> int:
    """The end of the string: a quote with as many backslashes as the opening quote, not counting escaped ones."""
    for match in QUOTE.finditer(text, at):
        if match[2] is None:
            return match.start()
        if match[2] == quote and len(match[1]) % (2 * (slashes + 1)) == slashes:
            return match.end() - 1 - slashes
    return len(text)


def _assigned_value_span(text: str, name: str, name_start: int, at: int) -> SecretSpan | None:
    match = ASSIGNED_VALUE.match(text, at)
    if match is None:
        return None
    value, is_tight = match["value"], match["sign"] == "="
    start, end = match.span("value")
    if NUMBER.fullmatch(value):
        return make_span(start, end, context_start=name_start) if is_secret_name(name, 0) else None
    if NON_LETTER_MARK.search(value):
        return (
            make_span(start, end, context_start=name_start)
            if is_tight or len(value) >= MIN_SPACED_VALUE_LENGTH
            else None
        )
    return _connection_string_span(text, name_start, start, end) if is_tight else None


def _connection_string_span(text: str, name_start: int, start: int, end: int) -> SecretSpan | None:
    """A plain word is a password if its line has a part of a connection string near it."""
    context_start = max(
        text.rfind("\n", max(0, name_start - MAX_CONNECTION_DISTANCE), name_start) + 1,
        name_start - MAX_CONNECTION_DISTANCE,
        0,
    )
    context_end = text.find("\n", end, end + MAX_CONNECTION_DISTANCE)
    context_end = min(end + MAX_CONNECTION_DISTANCE, len(text)) if context_end < 0 else context_end
    context = text[context_start:name_start].lower(), text[end:context_end].lower()
    is_connection_string = any(part in side for side in context for part in CONNECTION_STRING_PARTS)
    return make_span(start, end, context_start=context_start, context_end=context_end) if is_connection_string else None
