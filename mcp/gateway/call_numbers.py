"""Calls of tools for Prometheus: how many by what became of them, and how long each took from its arrival.

The label values are closed lists. Nothing that a caller or a server says becomes one.
"""

from functools import lru_cache

from prometheus_client import Counter, Histogram

from nhi.choices import CallStatus
from nhi.decisions.reasons import REASONS

CALLS = Counter("gatehouse_calls", "Calls of tools, by what became of them.", ["status", "reason"])
SECONDS = Histogram(
    "gatehouse_call_seconds",
    "Time from a call's arrival to what it is answered.",
    ["status"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
STATUSES = frozenset({*CallStatus.values, "pending_approval", "unauthenticated"})
#: Reasons that no decision gives: of calls that came to nothing once they were made, and of bearers that are none.
OTHERS = frozenset({
    "tool_error", "upstream", "unreadable", "timeout", "lost", "cancelled", "unexpected", "revoked_in_flight",
    "malformed",
})  # fmt: skip
KNOWN = frozenset({"", *REASONS, *OTHERS})


def count(status: str, reason: str, seconds: float) -> None:
    counter, histogram = _labelled(status, reason)
    counter.inc()
    histogram.observe(seconds)


@lru_cache(maxsize=1024)
def _labelled(status: str, reason: str) -> tuple[Counter, Histogram]:
    """Found once: looking labels up takes longer than counting."""
    named = status if status in STATUSES else "other"
    return CALLS.labels(named, reason if reason in KNOWN else "other"), SECONDS.labels(named)
