"""Texts that break off: half a secret at their end looks like nothing that any rule knows."""

import re
from collections.abc import Iterable, Sequence

from common.redaction import known_values
from common.redaction.known_values import Form
from common.redaction.masks import Find

#: Where one thing that may be a secret ends and another begins.
ENDS = re.compile(r"""[\s,;"'&<>]""")
#: What is dropped where none ends: more than most tokens have.
LONGEST_PART = 8 * 1024


def safe_end(text: str, forms: Iterable[Form], found: Sequence[Find]) -> int:
    """How much of it holds nothing that was begun: no known value, no last word, no part of a find."""
    end = min(known_values.open_at(text, forms), _last_word(text))
    return min((item.start for item in found if item.start < end < item.end), default=end)


def _last_word(text: str) -> int:
    first = max(0, len(text) - LONGEST_PART)
    return max((match.end() for match in ENDS.finditer(text, first)), default=first)
