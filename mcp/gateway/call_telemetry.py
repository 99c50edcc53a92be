"""The structured log line and the Prometheus metrics of each call."""

import json
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import orjson
from prometheus_client import Counter, Histogram

from common.redaction.redactor import Redactor
from mcp.gateway.types import CallRequest, CallResult
from nhi.choices import CallStatus
from nhi.decisions.reasons import ALL_REASONS

log = logging.getLogger("mcp.calls")

#: Statuses as seed 004 names them; every other outcome is a failure.
SEED_STATUS = {"success": "success", "timeout": "timeout"}
MAX_VALUE_CHARS = 2000
_redactor = Redactor()


def log_call(request: CallRequest, result: CallResult, seconds: float) -> None:
    if not log.isEnabledFor(logging.INFO):
        return
    line = {
        "event": "tool call",
        "level": "info",
        "logger": log.name,
        "call_id": result.call_id,
        "request_id": request.request_id,
        "thread_id": request.context.thread_id,
        "tool_name": request.name,
        "parameters": limit_size(request.arguments, _redactor.redact_value),
        "args_hash": request.args_hash,
        "execution_start": datetime.fromtimestamp(time.time() - seconds, UTC),
        "execution_duration": round(seconds, 6),
        "status": SEED_STATUS.get(result.reason or result.status, "failure"),
        "reason": result.reason,
        "result": limit_size(result.result),
        "error": _redactor.redact_text(result.log_message),
        "redaction_applied": result.redacted,
        "source": request.source,
        "timestamp": datetime.now(UTC),
    }
    log.info("tool call", extra={"line": _dump_json(line)})


def limit_size(value: Any, redact: Callable[[Any], Any] = lambda value: value) -> Any:
    """Return the redacted value, or its size when it is too large for a log line. A large value is not redacted."""
    size = len(_dump_json(value))
    return redact(value) if size <= MAX_VALUE_CHARS else {"omitted_bytes": size}


def _dump_json(value: Any) -> str:
    """Serialise as JSON, including what orjson refuses: integers beyond 64 bits and lone surrogates."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return json.dumps(value, default=str)


CALL_COUNTER = Counter("gatehouse_calls", "Calls of tools, by what became of them.", ["status", "reason"])
CALL_SECONDS = Histogram(
    "gatehouse_call_seconds",
    "Time from a call's arrival to what it is answered.",
    ["status"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
STATUSES = frozenset({*CallStatus.values, "pending_approval", "unauthenticated"})
KNOWN_REASONS = frozenset({"", *ALL_REASONS})


def count_call(status: str, reason: str, seconds: float) -> None:
    counter, histogram = _find_labelled_metrics(status, reason)
    counter.inc()
    histogram.observe(seconds)


@lru_cache(maxsize=1024)
def _find_labelled_metrics(status: str, reason: str) -> tuple[Counter, Histogram]:
    """Return the metrics of these labels. Cached, because looking up labels takes longer than counting."""
    status_label = status if status in STATUSES else "other"
    return CALL_COUNTER.labels(status_label, reason if reason in KNOWN_REASONS else "other"), CALL_SECONDS.labels(
        status_label
    )
