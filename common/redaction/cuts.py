"""Truncated texts: no rule recognizes a secret that is cut off at the end of the text."""

import re
from collections.abc import Iterable, Sequence

from common.redaction import known_values
from common.redaction.known_values import EncodedForm
from common.redaction.masks import SecretSpan

#: Characters that separate possible secrets.
WORD_END = re.compile(r"""[\s,;"'&<>]""")
#: Length of the text that is dropped if it has no separator: longer than most tokens.
MAX_PART_LENGTH = 8 * 1024


def find_safe_end(text: str, forms: Iterable[EncodedForm], spans: Sequence[SecretSpan]) -> int:
    """The end of the text that is safe to show: before a cut-off known value, before the last word, outside spans."""
    end = min(known_values.find_partial_value(text, forms), _find_last_word(text))
    return min((span.start for span in spans if span.start < end < span.end), default=end)


def _find_last_word(text: str) -> int:
    first = max(0, len(text) - MAX_PART_LENGTH)
    return max((match.end() for match in WORD_END.finditer(text, first)), default=first)
