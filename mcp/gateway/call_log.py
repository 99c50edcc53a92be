"""Seed 004's tool call context: each call is one line of the structured log, with its secrets taken out.

The line is put together here and not by the logging chain, which would cost as much as the rest of the call.
"""

import json
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson

from common.redaction.redactor import Redactor
from mcp.gateway.types import Wish

log = logging.getLogger("mcp.calls")

#: What the seed calls an outcome; everything else is a failure.
SEED_STATUS = {"success": "success", "timeout": "timeout"}
LARGEST = 2000
_redactor = Redactor()


def tell(
    wish: Wish, *, call_id: UUID | None, status: str, reason: str, message: str, result: dict[str, Any] | None,
    seconds: float, redacted: bool = False,
) -> None:  # fmt: skip
    if not log.isEnabledFor(logging.INFO):
        return
    line = {
        "event": "tool call",
        "level": "info",
        "logger": log.name,
        "call_id": call_id,
        "request_id": wish.request_id,
        "thread_id": wish.circumstances.thread_id,
        "tool_name": wish.name,
        "parameters": shown(wish.arguments, _redactor.redact_value),
        "args_hash": wish.args_hash,
        "execution_start": datetime.fromtimestamp(time.time() - seconds, UTC),
        "execution_duration": round(seconds, 6),
        "status": SEED_STATUS.get(reason or status, "failure"),
        "reason": reason,
        "result": shown(result),
        "error": _redactor.redact_text(message),
        "redaction_applied": redacted,
        "source": wish.source,
        "timestamp": datetime.now(UTC),
    }
    log.info("tool call", extra={"line": _dumped(line)})


def shown(value: Any, redacted: Callable[[Any], Any] = lambda value: value) -> Any:
    """As it is, or what it would have taken up: a log line is no place for a file, nor worth looking through one."""
    size = len(_dumped(value))
    return redacted(value) if size <= LARGEST else {"omitted_bytes": size}


def _dumped(value: Any) -> str:
    """Also what the quick writer refuses: whole numbers past 64 bits, and halves of characters."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return json.dumps(value, default=str)
