"""Locks, reads and writes the budget rows of a batch. Every process locks them in the same order."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from common.db import clock
from common.ids import uuid7
from mcp.choices import BudgetScope
from mcp.gateway.batch import database
from mcp.gateway.batch.decision import DecidedCall
from mcp.limits.budget_state import ROLLING_HOUR, BudgetState, floor_to_minute
from nhi.audit import sanitization
from nhi.decisions.types import AccessMatch

BudgetKey = tuple[str, UUID]
BUDGET_COLUMNS = (
    "id", "scope", "target_id", "target_name", "requests_per_second", "burst_size", "concurrency_limit", "timeout",
    "daily_quota", "calls_per_hour", "tokens", "tokens_at", "day", "day_used",
)  # fmt: skip


def find_budget_keys(pending: DecidedCall) -> list[BudgetKey]:
    """Return the keys of the budgets that may apply to a call, including those of the grants that limit it."""
    match, facts = pending.decision.match, pending.facts
    targets = {
        BudgetScope.SERVER: facts.read_id("server_id"),
        BudgetScope.TOOL: facts.read_id("tool_id"),
        BudgetScope.AGENT: facts.read_id("agent_id"),
        BudgetScope.GRANT: match.id if match is not None and match.kind == "grant" else None,
    }
    keys = [(scope.value, target) for scope, target in targets.items() if target is not None]
    hourly_keys = [(BudgetScope.GRANT.value, grant.id) for _, grant in find_hourly_grants(pending)]
    return list(dict.fromkeys([*keys, *hourly_keys]))


def find_hourly_grants(pending: DecidedCall) -> list[tuple[str, AccessMatch]]:
    """Return the grants of the call that limit calls per hour: the caller's, and those of the chain's principals."""
    match = pending.decision.match
    grants = (
        [(pending.log_row["agent_name"], match)] if match is not None and match.max_calls_per_hour is not None else []
    )
    return [*grants, *(pending.chain_check.counted_grants.items() if pending.chain_check is not None else ())]


def has_budgets(pending: DecidedCall) -> bool:
    return bool(pending.facts.row["budgeted"]) or bool(pending.decision.allowed and find_hourly_grants(pending))


def create_grant_budgets(pending_calls: Iterable[DecidedCall]) -> None:
    """Create the budgets of grants that limit calls per hour. Each is created with the first call of its grant."""
    budgets = {
        match.id: (
            sanitization.single_line(f"the grant of {holder} for {pending.request.name}", 400),
            pending.facts.now,
        )
        for pending in pending_calls
        for holder, match in find_hourly_grants(pending)
    }
    for grant_id, (name, now) in sorted(budgets.items()):
        database.run_statement(
            "INSERT INTO mcp_budget (id, scope, target_id, target_name, daily_quota, day_used, created_by_name,"
            " created_at, updated_at) VALUES (%s, 'grant', %s, %s, 0, 0, '', %s, %s)"
            " ON CONFLICT (scope, target_id) DO NOTHING",
            [_to_parameter(value) for value in (uuid7(), grant_id, name, now, now)],
        )


def lock_budgets(pending_calls: Sequence[DecidedCall]) -> tuple[dict[BudgetKey, BudgetState], datetime]:
    """Lock every budget of the batch in the order of ids. Return them with the database time after locking."""
    target_ids = {target for pending in pending_calls for _, target in find_budget_keys(pending)}
    condition, values = database.id_condition(sorted(target_ids))
    lock_clause = " FOR UPDATE" if database.is_postgresql() else ""
    statement = (
        f"SELECT {', '.join(BUDGET_COLUMNS)} FROM mcp_budget WHERE target_id {condition} ORDER BY id{lock_clause}"  # noqa: S608 - our own names
    )
    budgets = [_read_budget(row) for row in database.run_statement(statement, values)]
    now = _count_usage(budgets)
    for budget in budgets:
        budget.refresh(now)
    return {(budget.scope, budget.target_id): budget for budget in budgets}, now


# Runs after the rows are locked, so that it sees what other processes consumed under the locks. Slots past their
# deadline belong to dead processes and are not counted.
COUNTS_SQL = """
SELECT b.id, {now},
    (SELECT SUM(w.used) FROM mcp_budget_window w WHERE w.budget_id = b.id AND w.minute >= {since}),
    (SELECT MIN(w.minute) FROM mcp_budget_window w WHERE w.budget_id = b.id AND w.minute >= {since}),
    (SELECT COUNT(*) FROM mcp_call_slot s WHERE s.budget_id = b.id AND s.deadline > {now})
FROM mcp_budget b
WHERE b.id {condition}
"""
TIMES_SQL = {
    True: {"now": "CLOCK_TIMESTAMP()", "since": "date_trunc('minute', CLOCK_TIMESTAMP()) - INTERVAL '60 minutes'"},
    False: {
        "now": "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW')",
        "since": "STRFTIME('%%Y-%%m-%%d %%H:%%M:00', 'NOW', '-60 minutes')",
    },
}


def _count_usage(budgets: Sequence[BudgetState]) -> datetime:
    """Fill in the usage of the last hour and the active calls. Return the database time of the count."""
    if not budgets:
        return clock.database_now()
    condition, values = database.id_condition([budget.id for budget in budgets])
    statement = COUNTS_SQL.format(condition=condition, **TIMES_SQL[database.is_postgresql()])
    by_id = {budget.id: budget for budget in budgets}
    rows = database.run_statement(statement, values)
    for budget_id, _now, used, first_minute, in_flight in rows:
        budget = by_id[UUID(str(budget_id))]
        budget.hour_used, budget.in_flight = int(used or 0), int(in_flight)
        budget.hour_frees_at = (
            clock.parse_database_time(first_minute) + ROLLING_HOUR + timedelta(minutes=1)
            if first_minute is not None
            else None
        )
    return clock.parse_database_time(rows[0][1])


def select_budgets(pending: DecidedCall, budgets: dict[BudgetKey, BudgetState]) -> list[BudgetState]:
    selected = [budgets[key] for key in find_budget_keys(pending) if key in budgets]
    hourly = {match.id: match.max_calls_per_hour for _, match in find_hourly_grants(pending)}
    for budget in selected:
        limit = hourly.get(budget.target_id) if budget.scope == BudgetScope.GRANT else None
        if limit is not None:
            budget.calls_per_hour = min(budget.calls_per_hour or limit, limit)
    return selected


def save_usage(budgets: Iterable[BudgetState], now: datetime) -> None:
    """Write the consumption of the batch."""
    changed = [budget for budget in budgets if budget.consumed]
    if not changed:
        return
    if database.is_postgresql():
        database.run_statement(
            SAVE_USAGE_SQL, [database.dump_rows([_build_usage_row(budget, now) for budget in changed])]
        )
        return
    for budget in changed:
        database.run_statement(
            "UPDATE mcp_budget SET tokens = %s, tokens_at = %s, day = %s, day_used = %s WHERE id = %s",
            [
                _to_parameter(value)
                for value in (budget.tokens, budget.tokens_at, budget.day, budget.day_used, budget.id)
            ],
        )
        database.run_statement(
            "INSERT INTO mcp_budget_window (id, budget_id, minute, used) VALUES (%s, %s, %s, %s)"
            " ON CONFLICT (budget_id, minute) DO UPDATE SET used = mcp_budget_window.used + excluded.used",
            [_to_parameter(value) for value in (uuid7(), budget.id, floor_to_minute(now), budget.consumed)],
        )


SAVE_USAGE_SQL = """
WITH taken AS (
    SELECT * FROM jsonb_to_recordset(%s::jsonb) AS t(id uuid, tokens float8, tokens_at timestamptz, day date,
        day_used int, row uuid, minute timestamptz, used int)
), windows AS (
    INSERT INTO mcp_budget_window (id, budget_id, minute, used) SELECT row, id, minute, used FROM taken ORDER BY id
    ON CONFLICT (budget_id, minute) DO UPDATE SET used = mcp_budget_window.used + excluded.used
)
UPDATE mcp_budget b SET tokens = t.tokens, tokens_at = t.tokens_at, day = t.day, day_used = t.day_used
FROM taken t WHERE b.id = t.id
"""


def _build_usage_row(budget: BudgetState, now: datetime) -> dict[str, Any]:
    return {
        "id": budget.id,
        "tokens": budget.tokens,
        "tokens_at": budget.tokens_at,
        "day": budget.day,
        "day_used": budget.day_used,
        "row": uuid7(),
        "minute": floor_to_minute(now),
        "used": budget.consumed,
    }


def _read_budget(row: tuple[Any, ...]) -> BudgetState:
    values = dict(zip(BUDGET_COLUMNS, row, strict=True))
    for name in ("id", "target_id"):
        values[name] = values[name] if isinstance(values[name], UUID) else UUID(values[name])
    if values["tokens_at"] is not None:
        values["tokens_at"] = clock.parse_database_time(values["tokens_at"])
    if isinstance(values["day"], str):
        values["day"] = datetime.fromisoformat(values["day"]).date()
    return BudgetState(**values)


def _to_parameter(value: Any) -> Any:
    """Convert a value to a statement parameter for the current database."""
    if database.is_postgresql():
        return value
    return database.to_sqlite(value)
