"""Finds tokens by their prefix.

Each rule has a prefix, found by `str.find`, and a pattern matched there. A pattern matches a whole run of characters
possessively, its length is checked afterwards, and the search continues after the run. So every character is read a
fixed number of times in any text.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from common.redaction.masks import SecretSpan, make_span

Match = re.Match[str]
#: A letter before a prefix may be the end of an escape: `\n`, `%3D`, `\u003d`.
ESCAPES = re.compile(r"(?:\\[nrtbf]|%[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4})\Z")
MAX_PREFIX_LENGTH = 12
DIGIT, LOWER, UPPER = re.compile(r"[0-9]"), re.compile(r"[a-z]"), re.compile(r"[A-Z]")
LETTER, PIECES = re.compile(r"[A-Za-z]"), re.compile(r"[_-]")
#: The words between the hyphens of a slug are shorter.
MIN_PIECE_LENGTH = 20


@dataclass(frozen=True)
class TokenRule:
    """How one kind of token is found: its prefix, the pattern at the prefix, and a check of the match."""

    prefix: str
    pattern: re.Pattern[str]
    is_token: Callable[[Match], bool]
    #: The group of the pattern that is the secret; 0 for the whole match.
    secret_group: int


def is_inside_word(text: str, at: int) -> bool:
    """Whether the position is inside a word or a blob, where a short prefix occurs by chance."""
    if not at or not (text[at - 1].isalnum() or text[at - 1] in "_+/"):
        return False
    return not ESCAPES.search(text, max(0, at - 6), at)


def has_mixed_characters(text: str) -> bool:
    """Whether the text has digits, lower case and upper case letters, unlike a word or a slug."""
    return bool(DIGIT.search(text) and LOWER.search(text) and UPPER.search(text))


def find_matching_rules(text: str) -> list[TokenRule]:
    """The rules whose prefixes occur in the text; none for most texts."""
    return [rule for prefix, rule in RULES_BY_PREFIX if prefix in text]


def find_spans(text: str, rules: list[TokenRule]) -> Iterator[SecretSpan]:
    for rule in rules:
        yield from _find_rule_spans(rule, text)


def _find_rule_spans(rule: TokenRule, text: str) -> Iterator[SecretSpan]:
    at = text.find(rule.prefix)
    while at >= 0:
        match = rule.pattern.match(text, at)
        if match and rule.is_token(match):
            start, end = match.span(rule.secret_group)
            yield make_span(start, end, context_start=at)
            at = text.find(rule.prefix, match.end())
        else:
            # The end of a run may be the prefix of a token: `ghp_ghp_…`.
            at = text.find(rule.prefix, max(at + 1, match.end() - MAX_PREFIX_LENGTH if match else 0))


def _at_least(min_length: int) -> Callable[[Match], bool]:
    return lambda match: match.end() - match.start() >= min_length


def _is_github_token(match: Match) -> bool:
    # In a long base64url text these four characters occur by chance; a real token has 36 characters after them.
    length = match.end() - match.start() - 4
    return length == 36 if is_inside_word(match.string, match.start()) else length >= 20


def _at_least_outside_word(min_length: int) -> Callable[[Match], bool]:
    return lambda match: match.end() - match.start() >= min_length and not is_inside_word(match.string, match.start())


def _is_sk_token(match: Match) -> bool:
    length = match.end() - match.start()
    if length < 20:
        return False
    if is_inside_word(match.string, match.start()):
        return bool(match["kind"]) and has_mixed_characters(match[0])
    return bool(match["kind"]) or has_mixed_characters(match[0]) or _has_long_piece(match)


def _has_long_piece(match: Match) -> bool:
    """Whether a long piece has both letters and digits, as keys in a single case do."""
    pieces = (piece for piece in PIECES.split(match[0]) if len(piece) >= MIN_PIECE_LENGTH)
    return any(DIGIT.search(piece) and LETTER.search(piece) for piece in pieces)


def _always(_match: Match) -> bool:
    return True


def _rule(prefix: str, pattern: str, is_token: Callable[[Match], bool]) -> TokenRule:
    compiled = re.compile(pattern)
    return TokenRule(prefix, compiled, is_token, 1 if compiled.groups and not compiled.groupindex else 0)


#: The second alternative consumes a run without dots, which is not a JWT. An encrypted JWT has five parts.
JWT = r"(eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{4,}+\.[A-Za-z0-9_-]*+(?:\.[A-Za-z0-9_-]++){0,2}+)|eyJ[A-Za-z0-9_-]*+"

RULES = (
    # The public id of a credential is not secret; its secret and checksum are.
    _rule("nhi_", r"nhi_(?:agt|svc|usr)_[0-9A-Za-z]{1,32}+_([0-9A-Za-z]{1,46}+)", _always),
    _rule("nhi_tok_", r"nhi_tok_[0-9A-Za-z_.-]++", _always),
    _rule("gh", r"gh[opsur]_(?:(?!gh[opsur]_)[A-Za-z0-9])*+", _is_github_token),
    _rule("github_pat_", r"github_pat_[A-Za-z0-9_]*+", _at_least(31)),
    _rule("glpat-", r"glpat-[A-Za-z0-9_.-]*+", _at_least(22)),
    _rule("xox", r"xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]*+", _at_least(16)),
    _rule("xapp-", r"xapp-[A-Za-z0-9-]*+", _at_least(20)),
    _rule("hooks.slack", r"hooks\.slack(?:-gov)?\.com/[a-z]++/([A-Za-z0-9_/+-]++)", _always),
    _rule("sk-", r"sk-(?P<kind>(?:ant|proj|svcacct|admin|or-v1)-)?+[A-Za-z0-9_-]*+", _is_sk_token),
    _rule("AIza", r"AIza[A-Za-z0-9_-]*+", _at_least_outside_word(34)),
    _rule("ya29.", r"ya29\.[A-Za-z0-9_.-]*+", _at_least(25)),
    _rule("GOCSPX-", r"GOCSPX-[A-Za-z0-9_-]*+", _at_least(24)),
    _rule("k_live_", r"(?<=[sr])k_live_([A-Za-z0-9]{10,}+)", _always),
    _rule("k_test_", r"(?<=[sr])k_test_([A-Za-z0-9]{10,}+)", _always),
    _rule("whsec_", r"whsec_[A-Za-z0-9+/=_-]*+", _at_least(22)),
    _rule("AKIA", r"AKIA[A-Z0-9]*+", _at_least(20)),
    _rule("ASIA", r"ASIA[A-Z0-9]*+", _at_least(20)),
    _rule("eyJ", JWT, lambda match: bool(match[1])),
)
RULES_BY_PREFIX = tuple((rule.prefix, rule) for rule in RULES)
