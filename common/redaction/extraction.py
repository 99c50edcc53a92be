"""What redaction takes out of a value, so that it can be sought where nothing tells of it any more."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from common.redaction.masks import MASK
from common.redaction.redactor import Redactor

PLAIN = Redactor()
LISTS = (list, tuple)
#: Each is sought in every dress it may wear: what holds more was made for that.
MOST = 1000


def taken(value: Any) -> frozenset[str]:
    """The secrets of a structure: by the names that they stand under, and by what stands in its texts."""
    return frozenset(islice(_between(value, PLAIN.value(value)), MOST))


def _between(value: Any, shown: Any) -> Iterator[str]:
    if isinstance(value, Mapping) and isinstance(shown, Mapping):
        # Names may be masked too; their order stays.
        yield from _each(value.values(), shown.values())
    elif isinstance(value, LISTS) and isinstance(shown, LISTS):
        yield from _each(value, shown)
    elif isinstance(value, str) and shown not in (value, MASK):
        yield from (value[found.start : found.end] for found in PLAIN.finds(value))
    elif value != shown:
        yield from _texts(value)


def _each(values: Any, shown: Any) -> Iterator[str]:
    for value, its in zip(values, shown, strict=True):
        yield from _between(value, its)


def _texts(value: Any) -> Iterator[str]:
    """All there is in a value of which nothing is shown."""
    if isinstance(value, Mapping):
        value = [*value.values()]
    if isinstance(value, LISTS):
        for item in value:
            yield from _texts(item)
    elif value is not None and not isinstance(value, bool):
        yield str(value)
