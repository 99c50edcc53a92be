"""Removes secrets from text and structures before they are stored, logged or shown.

Secrets are found by the name of a field, by known value and by the format of tokens. `redact` and `redact_text` use the
default policy and no known values. A `Redactor` adds a server's secrets and an installation's policy. A
`StreamRedactor` redacts text that arrives in pieces. `extract_secrets` returns the values that redaction removes from
a structure; a `Redactor` with these values finds them in later output.
"""

from typing import Any, overload

from common.redaction.masks import EMAIL, IP, MASK, PHONE, UNREADABLE
from common.redaction.redactor import RedactionPolicy, Redactor
from common.redaction.secret_extraction import extract_secrets
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
    """Return a copy of the structure without secrets."""
    return DEFAULT_REDACTOR.redact_value(value)
