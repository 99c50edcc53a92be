"""Budgets as rows: locked in one order by everybody, opened for a batch, and written back."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from common.db import clock
from common.ids import uuid7
from mcp.choices import BudgetScope
from mcp.gateway.batch import database
from mcp.gateway.batch.decision import Draft
from mcp.limits.budget_state import WINDOWS, Purse, minute_of
from nhi.audit import sanitization
from nhi.decisions.types import AccessMatch

Place = tuple[str, UUID]
COLUMNS = (
    "id", "scope", "target_id", "target_name", "requests_per_second", "burst_size", "concurrency_limit", "timeout",
    "daily_quota", "calls_per_hour", "tokens", "tokens_at", "day", "day_used",
)  # fmt: skip


def places(draft: Draft) -> list[Place]:
    """What a call's budgets may be about: of grants, those by which it passes that limit it."""
    match, found = draft.decision.match, draft.found
    known = {
        BudgetScope.SERVER: found.id("server_id"),
        BudgetScope.TOOL: found.id("tool_id"),
        BudgetScope.AGENT: found.id("agent_id"),
        BudgetScope.GRANT: match.id if match is not None and match.kind == "grant" else None,
    }
    own = [(scope.value, target) for scope, target in known.items() if target is not None]
    counted = [(BudgetScope.GRANT.value, grant.id) for _, grant in limiting(draft)]
    return list(dict.fromkeys([*own, *counted]))


def limiting(draft: Draft) -> list[tuple[str, AccessMatch]]:
    """Grants by which it passes that limit calls per hour: the caller's, and those of whoever it calls for."""
    match = draft.decision.match
    own = [(draft.begun["agent_name"], match)] if match is not None and match.max_calls_per_hour is not None else []
    return [*own, *(draft.standing.counted_grants.items() if draft.standing is not None else ())]


def concerns(draft: Draft) -> bool:
    return bool(draft.found.row["budgeted"]) or bool(draft.decision.allowed and limiting(draft))


def make_for_grants(drafts: Iterable[Draft]) -> None:
    """A grant that limits calls per hour counts them in a budget of its own, which is made with its first call."""
    wanted = {
        match.id: (sanitization.single_line(f"the grant of {holder} for {draft.wish.name}", 400), draft.found.now)
        for draft in drafts
        for holder, match in limiting(draft)
    }
    for grant_id, (name, now) in sorted(wanted.items()):
        database.run(
            "INSERT INTO mcp_budget (id, scope, target_id, target_name, daily_quota, day_used, created_by_name,"
            " created_at, updated_at) VALUES (%s, 'grant', %s, %s, 0, 0, '', %s, %s)"
            " ON CONFLICT (scope, target_id) DO NOTHING",
            [_sent(value) for value in (uuid7(), grant_id, name, now, now)],
        )


def lock(drafts: Sequence[Draft]) -> tuple[dict[Place, Purse], datetime]:
    """Every budget of the batch, in the order of ids, and the database's time once they are held."""
    wanted = {target for draft in drafts for _, target in places(draft)}
    condition, values = database.ids(sorted(wanted))
    held = " FOR UPDATE" if database.is_postgresql() else ""
    statement = f"SELECT {', '.join(COLUMNS)} FROM mcp_budget WHERE target_id {condition} ORDER BY id{held}"  # noqa: S608 - our own names
    purses = [_purse(row) for row in database.run(statement, values)]
    now = _count(purses)
    for purse in purses:
        purse.open(now)
    return {(purse.scope, purse.target_id): purse for purse in purses}, now


# After the locks, so that whatever others took under them is seen. Slots whose lease is past its deadline are those of
# dead processes: they count no more.
COUNTS = """
SELECT b.id, {now},
    (SELECT SUM(w.used) FROM mcp_budget_window w WHERE w.budget_id = b.id AND w.minute >= {since}),
    (SELECT MIN(w.minute) FROM mcp_budget_window w WHERE w.budget_id = b.id AND w.minute >= {since}),
    (SELECT COUNT(*) FROM mcp_call_slot s WHERE s.budget_id = b.id AND s.deadline > {now})
FROM mcp_budget b
WHERE b.id {condition}
"""
TIMES = {
    True: {"now": "CLOCK_TIMESTAMP()", "since": "date_trunc('minute', CLOCK_TIMESTAMP()) - INTERVAL '60 minutes'"},
    False: {
        "now": "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW')",
        "since": "STRFTIME('%%Y-%%m-%%d %%H:%%M:00', 'NOW', '-60 minutes')",
    },
}


def _count(purses: Sequence[Purse]) -> datetime:
    """Fill in what is used of the last hour and under way now; the moment at which that was so."""
    if not purses:
        return clock.database_now()
    condition, values = database.ids([purse.id for purse in purses])
    statement = COUNTS.format(condition=condition, **TIMES[database.is_postgresql()])
    by_id = {purse.id: purse for purse in purses}
    rows = database.run(statement, values)
    for budget_id, _now, used, first, flights in rows:
        purse = by_id[UUID(str(budget_id))]
        purse.hour_used, purse.in_flight = int(used or 0), int(flights)
        purse.hour_frees_at = (
            clock.parse_database_time(first) + WINDOWS + timedelta(minutes=1) if first is not None else None
        )
    return clock.parse_database_time(rows[0][1])


def of(draft: Draft, purses: dict[Place, Purse]) -> list[Purse]:
    own = [purses[place] for place in places(draft) if place in purses]
    hourly = {match.id: match.max_calls_per_hour for _, match in limiting(draft)}
    for purse in own:
        limit = hourly.get(purse.target_id) if purse.scope == BudgetScope.GRANT else None
        if limit is not None:
            purse.calls_per_hour = min(purse.calls_per_hour or limit, limit)
    return own


def settle(purses: Iterable[Purse], now: datetime) -> None:
    """Write down what was taken."""
    taken = [purse for purse in purses if purse.taken]
    if not taken:
        return
    if database.is_postgresql():
        database.run(SETTLE, [database.as_json([_settled(purse, now) for purse in taken])])
        return
    for purse in taken:
        database.run(
            "UPDATE mcp_budget SET tokens = %s, tokens_at = %s, day = %s, day_used = %s WHERE id = %s",
            [_sent(value) for value in (purse.tokens, purse.tokens_at, purse.day, purse.day_used, purse.id)],
        )
        database.run(
            "INSERT INTO mcp_budget_window (id, budget_id, minute, used) VALUES (%s, %s, %s, %s)"
            " ON CONFLICT (budget_id, minute) DO UPDATE SET used = mcp_budget_window.used + excluded.used",
            [_sent(value) for value in (uuid7(), purse.id, minute_of(now), purse.taken)],
        )


SETTLE = """
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


def _settled(purse: Purse, now: datetime) -> dict[str, Any]:
    return {
        "id": purse.id,
        "tokens": purse.tokens,
        "tokens_at": purse.tokens_at,
        "day": purse.day,
        "day_used": purse.day_used,
        "row": uuid7(),
        "minute": minute_of(now),
        "used": purse.taken,
    }


def _purse(row: tuple[Any, ...]) -> Purse:
    read = dict(zip(COLUMNS, row, strict=True))
    for name in ("id", "target_id"):
        read[name] = read[name] if isinstance(read[name], UUID) else UUID(read[name])
    if read["tokens_at"] is not None:
        read["tokens_at"] = clock.parse_database_time(read["tokens_at"])
    if isinstance(read["day"], str):
        read["day"] = datetime.fromisoformat(read["day"]).date()
    return Purse(**read)


def _sent(value: Any) -> Any:
    """A parameter as the connection takes it."""
    if database.is_postgresql():
        return value
    return database.plain(value)
