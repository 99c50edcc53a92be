"""Makes untrusted text safe for the logs: one line, redacted, storable."""

from typing import Any

from common.redaction import redact_text

#: Escapes of control characters, and of lone surrogates, which no database stores.
CONTROL_ESCAPES = {mark: f"\\u{mark:04x}" for mark in (*range(32), *range(127, 160), *range(0xD800, 0xE000))}
UNSTORABLE_ESCAPES = {mark: f"\\u{mark:04x}" for mark in (0, *range(0xD800, 0xE000))}


def single_line(text: str, cap: int) -> str:
    """Return one line without control characters and secrets, so that no name can forge a log row."""
    return redact_text(text.translate(CONTROL_ESCAPES))[:cap]


def make_storable(value: Any) -> Any:
    """Escape NUL, which PostgreSQL's JSON cannot store, and lone surrogates, which no encoding can."""
    if isinstance(value, dict):
        return {make_storable(name): make_storable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [make_storable(item) for item in value]
    return value.translate(UNSTORABLE_ESCAPES) if isinstance(value, str) else value
