"""JSON Schemas of strangers: compiled once, never fetching anything, with regular expressions that cannot run away."""

import json
from functools import lru_cache
from typing import Any, NoReturn

import jsonschema_rs

from common import canonical

DEEPEST = 32
# The linear-time engine: no pattern of a stranger can make it backtrack.
PATTERNS = jsonschema_rs.RegexOptions(size_limit=1_000_000)


def problem(schema: dict[str, Any]) -> str:
    """Why the schema cannot be used, or nothing."""
    if _depth(schema) > DEEPEST:
        return f"The schema is nested deeper than {DEEPEST} levels."
    try:
        _compiled(canonical.encode(schema))
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        return f"This is no usable JSON Schema: {str(error).splitlines()[0][:200]}"
    return ""


def violations(schema: dict[str, Any], value: Any) -> list[tuple[str, str]]:
    """Where the value breaks the schema and how, at most ten. The value itself is not repeated."""
    found = []
    for error in _compiled(canonical.encode(schema)).iter_errors(value):
        place = "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
        found.append((place, _said(error)))
        if len(found) == 10:
            break
    return found


@lru_cache(maxsize=512)
def _compiled(text: bytes) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(
        json.loads(text), pattern_options=PATTERNS, retriever=_refuse, mask="the value", validate_formats=False
    )


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"a reference to {uri[:80]} is not followed; put the definition into the schema itself")


def _said(error: Any) -> str:
    return str(error.message)[:300]


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_depth, value), default=0)
    return 0
