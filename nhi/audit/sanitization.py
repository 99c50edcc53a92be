"""Text of others as the record keeps it: on one line, without secrets, and such as every database stores."""

from typing import Any

from common.redaction import redact_text

#: Control characters, and halves of surrogate pairs, which no database stores.
CONTROL_ESCAPES = {mark: f"\\u{mark:04x}" for mark in (*range(32), *range(127, 160), *range(0xD800, 0xE000))}
UNSTORABLE_ESCAPES = {mark: f"\\u{mark:04x}" for mark in (0, *range(0xD800, 0xE000))}


def single_line(text: str, cap: int) -> str:
    """One line, without control characters and secrets: nothing in a name can forge a row."""
    return redact_text(text.translate(CONTROL_ESCAPES))[:cap]


def make_storable(value: Any) -> Any:
    """PostgreSQL's JSON holds no NUL, and no encoding holds half of a surrogate pair: both are spelled out."""
    if isinstance(value, dict):
        return {make_storable(name): make_storable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [make_storable(item) for item in value]
    return value.translate(UNSTORABLE_ESCAPES) if isinstance(value, str) else value
