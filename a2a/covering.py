"""What is sent through tasks: kept and shown without its secrets, given to the agent as it was sent."""

import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from common import crypto
from common.redaction import redact, redact_text
from nhi.audit import sanitization


def shown(value: Any) -> Any:
    """The same as it may be stored and shown. Files stay as they are: their letters only look like secrets."""
    return sanitization.make_storable(_covered(value))


def seal(value: Mapping[str, Any], *, row: UUID) -> str:
    return crypto.seal(json.dumps(value), place=_place(row))


def unseal(sealed: str, *, row: UUID) -> dict[str, Any]:
    return dict(json.loads(crypto.unseal(sealed, place=_place(row))))


def _covered(value: Any) -> Any:
    if isinstance(value, Mapping) and isinstance(value.get("parts"), list):
        rest = redact({name: part for name, part in value.items() if name != "parts"})
        return {**rest, "parts": [_part(part) for part in value["parts"]]}
    return redact_text(value) if isinstance(value, str) else redact(value)


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    kept = {"raw": part["raw"]} if "raw" in part else {}
    return {**redact({name: value for name, value in part.items() if name != "raw"}), **kept}


def _place(row: UUID) -> str:
    return f"a2a_task_message/{row}/body"
