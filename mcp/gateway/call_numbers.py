"""Prometheus metrics of tool calls: their number by status and reason, and their duration from arrival to answer.

The label values are closed lists. No text of a caller or a server becomes a label value.
"""

from functools import lru_cache

from prometheus_client import Counter, Histogram

from nhi.choices import CallStatus
from nhi.decisions.reasons import REASONS

CALL_COUNTER = Counter("gatehouse_calls", "Calls of tools, by what became of them.", ["status", "reason"])
CALL_SECONDS = Histogram(
    "gatehouse_call_seconds",
    "Time from a call's arrival to what it is answered.",
    ["status"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
STATUSES = frozenset({*CallStatus.values, "pending_approval", "unauthenticated"})
#: Reasons outside decisions: of calls that were made and failed, and of malformed tokens.
NON_DECISION_REASONS = frozenset({
    "tool_error", "upstream", "unreadable", "timeout", "lost", "cancelled", "unexpected", "revoked_in_flight",
    "malformed",
})  # fmt: skip
KNOWN_REASONS = frozenset({"", *REASONS, *NON_DECISION_REASONS})


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
