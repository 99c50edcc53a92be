"""What redaction takes out of a value, so that it can be sought where nothing tells of it any more."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from common.redaction.masks import MASK
from common.redaction.redactor import Redactor

DEFAULT_REDACTOR = Redactor()
LIST_TYPES = (list, tuple)
#: Each is sought in every dress it may wear: what holds more was made for that.
MAX_SECRETS = 1000


def extract_secrets(value: Any) -> frozenset[str]:
    """The secrets of a structure: by the names that they stand under, and by what stands in its texts."""
    return frozenset(islice(_extract_from_pair(value, DEFAULT_REDACTOR.redact_value(value)), MAX_SECRETS))


def _extract_from_pair(value: Any, shown: Any) -> Iterator[str]:
    if isinstance(value, Mapping) and isinstance(shown, Mapping):
        # Names may be masked too; their order stays.
        yield from _extract_from_pairs(value.values(), shown.values())
    elif isinstance(value, LIST_TYPES) and isinstance(shown, LIST_TYPES):
        yield from _extract_from_pairs(value, shown)
    elif isinstance(value, str) and shown not in (value, MASK):
        yield from (value[found.start : found.end] for found in DEFAULT_REDACTOR.find_spans(value))
    elif value != shown:
        yield from _collect_texts(value)


def _extract_from_pairs(values: Any, shown: Any) -> Iterator[str]:
    for value, its in zip(values, shown, strict=True):
        yield from _extract_from_pair(value, its)


def _collect_texts(value: Any) -> Iterator[str]:
    """All there is in a value of which nothing is shown."""
    if isinstance(value, Mapping):
        value = [*value.values()]
    if isinstance(value, LIST_TYPES):
        for item in value:
            yield from _collect_texts(item)
    elif value is not None and not isinstance(value, bool):
        yield str(value)
