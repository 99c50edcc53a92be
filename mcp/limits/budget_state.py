"""Token bucket and quotas of one budget, in memory. The rows are locked meanwhile. Pure: no database access."""

import math
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

#: Usage counts the current minute and the sixty before it, so that no sixty minutes exceed the limit.
ROLLING_HOUR = timedelta(minutes=60)


@dataclass(frozen=True)
class RemainingQuota:
    """Remaining calls of the tightest limit, and the seconds until it resets."""

    remaining: int
    reset: int


@dataclass
class BudgetState:
    """The row of one budget and its consumption by the current batch."""

    id: UUID
    scope: str
    target_id: UUID
    target_name: str
    requests_per_second: float | None = None
    burst_size: int | None = None
    concurrency_limit: int | None = None
    timeout: float | None = None
    daily_quota: int = 0
    calls_per_hour: int | None = None
    tokens: float | None = None
    tokens_at: datetime | None = None
    day: date | None = None
    day_used: int = 0
    hour_used: int = 0
    in_flight: int = 0
    #: When the oldest calls of the rolling hour stop counting.
    hour_frees_at: datetime | None = None
    consumed: int = field(default=0, init=False)

    @property
    def burst(self) -> float:
        rate = self.requests_per_second or 0
        return float(self.burst_size or max(1, math.ceil(rate)))

    def refresh(self, now: datetime) -> None:
        """Refill the token bucket up to now; reset the daily usage on a new day."""
        if self.requests_per_second is not None:
            previous_tokens = self.burst if self.tokens is None else self.tokens
            elapsed = max(0.0, (now - self.tokens_at).total_seconds()) if self.tokens_at else 0.0
            self.tokens = min(self.burst, previous_tokens + elapsed * self.requests_per_second)
            self.tokens_at = now
        today = now.astimezone(UTC).date()
        if self.day != today:
            self.day, self.day_used = today, 0

    def consume(self) -> None:
        if self.tokens is not None and self.requests_per_second is not None:
            self.tokens -= 1
        self.day_used += 1
        self.hour_used += 1
        self.in_flight += 1
        self.consumed += 1

    def find_remaining(self, now: datetime) -> RemainingQuota | None:
        """Return the tightest of the counted limits."""
        quotas = []
        if self.requests_per_second is not None and self.tokens is not None:
            quotas.append(RemainingQuota(max(0, int(self.tokens)), 1))
        if self.calls_per_hour is not None:
            quotas.append(
                RemainingQuota(max(0, self.calls_per_hour - self.hour_used), self._seconds_until_hour_frees(now))
            )
        if self.daily_quota:
            quotas.append(RemainingQuota(max(0, self.daily_quota - self.day_used), _seconds_until_midnight(now)))
        return min(quotas, key=lambda quota: quota.remaining, default=None)

    def find_exceeded_limit(self, now: datetime) -> "ExceededLimit | None":
        """Return the limit that one more call would exceed."""
        if self.concurrency_limit is not None and self.in_flight >= self.concurrency_limit:
            message = f"{self.in_flight} of {self.concurrency_limit} calls of {self.target_name} are under way"
            return ExceededLimit("concurrency_exceeded", f"{message}.", 1)
        if self.daily_quota and self.day_used >= self.daily_quota:
            message = f"{self.day_used} of {self.daily_quota} calls of {self.target_name} were made today (UTC)"
            return ExceededLimit("quota_exceeded", f"{message}.", _seconds_until_midnight(now))
        if self.calls_per_hour is not None and self.hour_used >= self.calls_per_hour:
            message = (
                f"{self.hour_used} of {self.calls_per_hour} calls of {self.target_name} were made in the last hour"
            )
            return ExceededLimit("quota_exceeded", f"{message}.", self._seconds_until_hour_frees(now))
        if self.requests_per_second is not None and self.tokens is not None and self.tokens < 1:
            wait = math.ceil((1 - self.tokens) / self.requests_per_second)
            message = f"{self.target_name} takes {self.requests_per_second:g} calls a second"
            return ExceededLimit("rate_exceeded", f"{message}.", max(1, wait))
        return None

    def _seconds_until_hour_frees(self, now: datetime) -> int:
        frees_at = self.hour_frees_at or now + ROLLING_HOUR
        return max(1, math.ceil((frees_at - now).total_seconds()))


@dataclass(frozen=True)
class ExceededLimit:
    """The limit that one more call would exceed, and the seconds after which a retry may pass."""

    reason: str
    message: str
    retry_after: int


def consume_all(budgets: list[BudgetState], now: datetime) -> ExceededLimit | None:
    """Consume one call from all of its budgets, or from none if a limit would be exceeded."""
    for budget in budgets:
        if exceeded_limit := budget.find_exceeded_limit(now):
            return exceeded_limit
    for budget in budgets:
        budget.consume()
    return None


def find_tightest_quota(budgets: list[BudgetState], now: datetime) -> RemainingQuota | None:
    quotas = [quota for budget in budgets if (quota := budget.find_remaining(now)) is not None]
    return min(quotas, key=lambda quota: quota.remaining, default=None)


def floor_to_minute(now: datetime) -> datetime:
    return now.astimezone(UTC).replace(second=0, microsecond=0)


def _seconds_until_midnight(now: datetime) -> int:
    today = now.astimezone(UTC)
    midnight = (today + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    return max(1, math.ceil((midnight - today).total_seconds()))
