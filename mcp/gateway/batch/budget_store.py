"""Locks, reads and writes the budget rows of a batch. Every process locks them in the same order."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from common.db import clock
from common.ids import uuid7
from mcp.choices import BudgetScope
from mcp.gateway.batch import database
from mcp.gateway.batch.decision import PendingCall
from mcp.limits.budget_state import ROLLING_HOUR, BudgetState, floor_to_minute
from nhi.audit import sanitization
from nhi.decisions.types import AccessMatch

BudgetKey = tuple[str, UUID]
BUDGET_COLUMNS = (
    "id", "scope", "target_id", "target_name", "requests_per_second", "burst_size", "concurrency_limit", "timeout",
    "daily_quota", "calls_per_hour", "tokens", "tokens_at", "day", "day_used",
)  # fmt: skip


def find_budget_keys(draft: PendingCall) -> list[BudgetKey]:
    """Return the keys of the budgets that may apply to a call, including those of the grants that limit it."""
    match, found = draft.decision.match, draft.facts
    known = {
        BudgetScope.SERVER: found.read_id("server_id"),
        BudgetScope.TOOL: found.read_id("tool_id"),
        BudgetScope.AGENT: found.read_id("agent_id"),
        BudgetScope.GRANT: match.id if match is not None and match.kind == "grant" else None,
    }
    own = [(scope.value, target) for scope, target in known.items() if target is not None]
    counted = [(BudgetScope.GRANT.value, grant.id) for _, grant in find_hourly_grants(draft)]
    return list(dict.fromkeys([*own, *counted]))


def find_hourly_grants(draft: PendingCall) -> list[tuple[str, AccessMatch]]:
    """Return the grants of the call that limit calls per hour: the caller's, and those of the chain's principals."""
    match = draft.decision.match
    own = [(draft.log_row["agent_name"], match)] if match is not None and match.max_calls_per_hour is not None else []
    return [*own, *(draft.chain_verdict.counted_grants.items() if draft.chain_verdict is not None else ())]


def has_budgets(draft: PendingCall) -> bool:
    return bool(draft.facts.row["budgeted"]) or bool(draft.decision.allowed and find_hourly_grants(draft))


def create_grant_budgets(drafts: Iterable[PendingCall]) -> None:
    """Create the budgets of grants that limit calls per hour. Each is created with the first call of its grant."""
    wanted = {
        match.id: (sanitization.single_line(f"the grant of {holder} for {draft.request.name}", 400), draft.facts.now)
        for draft in drafts
        for holder, match in find_hourly_grants(draft)
    }
    for grant_id, (name, now) in sorted(wanted.items()):
        database.run_statement(
            "INSERT INTO mcp_budget (id, scope, target_id, target_name, daily_quota, day_used, created_by_name,"
            " created_at, updated_at) VALUES (%s, 'grant', %s, %s, 0, 0, '', %s, %s)"
            " ON CONFLICT (scope, target_id) DO NOTHING",
            [_to_parameter(value) for value in (uuid7(), grant_id, name, now, now)],
        )


def lock_budgets(drafts: Sequence[PendingCall]) -> tuple[dict[BudgetKey, BudgetState], datetime]:
    """Lock every budget of the batch in the order of ids. Return them with the database time after locking."""
    wanted = {target for draft in drafts for _, target in find_budget_keys(draft)}
    condition, values = database.id_condition(sorted(wanted))
    held = " FOR UPDATE" if database.is_postgresql() else ""
    statement = f"SELECT {', '.join(BUDGET_COLUMNS)} FROM mcp_budget WHERE target_id {condition} ORDER BY id{held}"  # noqa: S608 - our own names
    purses = [_read_budget(row) for row in database.run_statement(statement, values)]
    now = _count_usage(purses)
    for purse in purses:
        purse.refresh(now)
    return {(purse.scope, purse.target_id): purse for purse in purses}, now


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


def _count_usage(purses: Sequence[BudgetState]) -> datetime:
    """Fill in the usage of the last hour and the active calls. Return the database time of the count."""
    if not purses:
        return clock.database_now()
    condition, values = database.id_condition([purse.id for purse in purses])
    statement = COUNTS_SQL.format(condition=condition, **TIMES_SQL[database.is_postgresql()])
    by_id = {purse.id: purse for purse in purses}
    rows = database.run_statement(statement, values)
    for budget_id, _now, used, first, flights in rows:
        purse = by_id[UUID(str(budget_id))]
        purse.hour_used, purse.in_flight = int(used or 0), int(flights)
        purse.hour_frees_at = (
            clock.parse_database_time(first) + ROLLING_HOUR + timedelta(minutes=1) if first is not None else None
        )
    return clock.parse_database_time(rows[0][1])


def select_budgets(draft: PendingCall, purses: dict[BudgetKey, BudgetState]) -> list[BudgetState]:
    own = [purses[place] for place in find_budget_keys(draft) if place in purses]
    hourly = {match.id: match.max_calls_per_hour for _, match in find_hourly_grants(draft)}
    for purse in own:
        limit = hourly.get(purse.target_id) if purse.scope == BudgetScope.GRANT else None
        if limit is not None:
            purse.calls_per_hour = min(purse.calls_per_hour or limit, limit)
    return own


def save_usage(purses: Iterable[BudgetState], now: datetime) -> None:
    """Write the consumption of the batch."""
    taken = [purse for purse in purses if purse.consumed]
    if not taken:
        return
    if database.is_postgresql():
        database.run_statement(SAVE_USAGE_SQL, [database.dump_rows([_build_usage_row(purse, now) for purse in taken])])
        return
    for purse in taken:
        database.run_statement(
            "UPDATE mcp_budget SET tokens = %s, tokens_at = %s, day = %s, day_used = %s WHERE id = %s",
            [_to_parameter(value) for value in (purse.tokens, purse.tokens_at, purse.day, purse.day_used, purse.id)],
        )
        database.run_statement(
            "INSERT INTO mcp_budget_window (id, budget_id, minute, used) VALUES (%s, %s, %s, %s)"
            " ON CONFLICT (budget_id, minute) DO UPDATE SET used = mcp_budget_window.used + excluded.used",
            [_to_parameter(value) for value in (uuid7(), purse.id, floor_to_minute(now), purse.consumed)],
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


def _build_usage_row(purse: BudgetState, now: datetime) -> dict[str, Any]:
    return {
        "id": purse.id,
        "tokens": purse.tokens,
        "tokens_at": purse.tokens_at,
        "day": purse.day,
        "day_used": purse.day_used,
        "row": uuid7(),
        "minute": floor_to_minute(now),
        "used": purse.consumed,
    }


def _read_budget(row: tuple[Any, ...]) -> BudgetState:
    read = dict(zip(BUDGET_COLUMNS, row, strict=True))
    for name in ("id", "target_id"):
        read[name] = read[name] if isinstance(read[name], UUID) else UUID(read[name])
    if read["tokens_at"] is not None:
        read["tokens_at"] = clock.parse_database_time(read["tokens_at"])
    if isinstance(read["day"], str):
        read["day"] = datetime.fromisoformat(read["day"]).date()
    return BudgetState(**read)


def _to_parameter(value: Any) -> Any:
    """Convert a value to a statement parameter for the current database."""
    if database.is_postgresql():
        return value
    return database.to_sqlite(value)
