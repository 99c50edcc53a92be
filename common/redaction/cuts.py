"""Texts that break off: half a secret at their end looks like nothing that any rule knows."""

import re
from collections.abc import Iterable, Sequence

from common.redaction import known_values
from common.redaction.known_values import EncodedForm
from common.redaction.masks import SecretSpan

#: Where one thing that may be a secret ends and another begins.
WORD_END = re.compile(r"""[\s,;"'&<>]""")
#: What is dropped where none ends: more than most tokens have.
MAX_PART_LENGTH = 8 * 1024


def find_safe_end(text: str, forms: Iterable[EncodedForm], found: Sequence[SecretSpan]) -> int:
    """How much of it holds nothing that was begun: no known value, no last word, no part of a find."""
    end = min(known_values.find_partial_value(text, forms), _find_last_word(text))
    return min((item.start for item in found if item.start < end < item.end), default=end)


def _find_last_word(text: str) -> int:
    first = max(0, len(text) - MAX_PART_LENGTH)
    return max((match.end() for match in WORD_END.finditer(text, first)), default=first)
