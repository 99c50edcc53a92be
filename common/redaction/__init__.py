"""Secrets are taken out before anything is stored, logged or shown: by key name, by known value, by token shape.

`redact` and `redact_text` know no values and follow the default policy; a `Redactor` is made for what a server's own
secrets and an installation's policy add; a `StreamRedactor` is for text that comes in pieces. `taken` tells which
values went, for a `Redactor` of what comes of them.
"""

from typing import Any, overload

from common.redaction.extraction import extract_secrets
from common.redaction.masks import EMAIL, IP, MASK, PHONE, UNREADABLE
from common.redaction.redactor import RedactionPolicy, Redactor
from common.redaction.stream import StreamRedactor

__all__ = [
    "EMAIL", "IP", "MASK", "PHONE", "UNREADABLE", "RedactionPolicy", "Redactor", "StreamRedactor", "extract_secrets",
    "redact", "redact_text",
]  # fmt: skip
DEFAULT_REDACTOR = Redactor()


def redact_text(text: str) -> str:
    return DEFAULT_REDACTOR.redact_text(text)


@overload
def redact(value: dict[str, Any]) -> dict[str, Any]: ...
@overload
def redact(value: Any) -> Any: ...
def redact(value: Any) -> Any:
    """The same structure without its secrets."""
    return DEFAULT_REDACTOR.redact_value(value)
