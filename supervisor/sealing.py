"""What agents and runs are given, encrypted for the one row that it is of."""

import json
from typing import Any
from uuid import UUID

from common import crypto


def seal(value: Any, *, table: str, row: UUID, field: str) -> str:
    return crypto.seal(json.dumps(value), place=_place(table, row, field)) if value else ""


def unseal(sealed: str, *, table: str, row: UUID, field: str) -> Any:
    """What was sealed there; None when nothing was."""
    return json.loads(crypto.unseal(sealed, place=_place(table, row, field))) if sealed else None


def _place(table: str, row: UUID, field: str) -> str:
    return f"supervisor_{table}/{row}/{field}"
