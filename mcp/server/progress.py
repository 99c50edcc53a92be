"""Progress notifications for the caller of one call: with its token, rising values and a limited rate."""

import math
from typing import Any, TypeGuard

from mcp.server.errors import RequestId

#: Notifications beyond this rate are dropped. The next one contains newer progress.
MAX_NOTIFICATIONS_PER_SECOND = 50
#: Exclusive upper limit. It also excludes infinity and NaN.
MAX_PROGRESS = 2**63


class ProgressNotifier:
    def __init__(self, token: RequestId) -> None:
        self._token = token
        self._last: float = -math.inf
        self._second, self._sent = 0, 0

    def build_notification(self, update: dict[str, Any], *, now: float) -> dict[str, Any] | None:
        """Build the notification for an upstream update, or None if its value does not rise or comes too fast."""
        value = update.get("progress")
        if not _is_number(value) or value <= self._last or not self._is_within_rate(int(now)):
            return None
        self._last = value
        params: dict[str, Any] = {"progressToken": self._token, "progress": value}
        if _is_number(update.get("total")):
            params["total"] = update["total"]
        if isinstance(update.get("message"), str):
            params["message"] = update["message"]
        return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}

    def _is_within_rate(self, second: int) -> bool:
        if second != self._second:
            self._second, self._sent = second, 0
        self._sent += 1
        return self._sent <= MAX_NOTIFICATIONS_PER_SECOND


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < MAX_PROGRESS
