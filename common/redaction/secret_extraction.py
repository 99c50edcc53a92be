"""Extracts the secret values of a structure, to search for them where no name or format identifies them."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from common.redaction.masks import MASK
from common.redaction.redactor import Redactor

DEFAULT_REDACTOR = Redactor()
LIST_TYPES = (list, tuple)
#: Each secret is searched in every encoding. Only a hostile value has more secrets.
MAX_SECRETS = 1000


def extract_secrets(value: Any) -> frozenset[str]:
    """The secrets of a structure, found by the names of fields and in texts."""
    return frozenset(islice(_extract_from_pair(value, DEFAULT_REDACTOR.redact_value(value)), MAX_SECRETS))


def _extract_from_pair(value: Any, redacted: Any) -> Iterator[str]:
    if isinstance(value, Mapping) and isinstance(redacted, Mapping):
        # Names may be masked too, but their order stays the same.
        yield from _extract_from_pairs(value.values(), redacted.values())
    elif isinstance(value, LIST_TYPES) and isinstance(redacted, LIST_TYPES):
        yield from _extract_from_pairs(value, redacted)
    elif isinstance(value, str) and redacted not in (value, MASK):
        yield from (value[span.start : span.end] for span in DEFAULT_REDACTOR.find_spans(value))
    elif value != redacted:
        yield from _collect_texts(value)


def _extract_from_pairs(values: Any, redacted: Any) -> Iterator[str]:
    for value, redacted_value in zip(values, redacted, strict=True):
        yield from _extract_from_pair(value, redacted_value)


def _collect_texts(value: Any) -> Iterator[str]:
    """All texts and numbers in a value that was masked as a whole."""
    if isinstance(value, Mapping):
        value = [*value.values()]
    if isinstance(value, LIST_TYPES):
        for item in value:
            yield from _collect_texts(item)
    elif value is not None and not isinstance(value, bool):
        yield str(value)
