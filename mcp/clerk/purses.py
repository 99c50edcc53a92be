"""Budgets as rows: locked in one order by everybody, opened for a batch, and written back."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from common import clock
from common.ids import uuid7
from mcp.choices import BudgetScope
from mcp.clerk import database
from mcp.clerk.allotting import WINDOWS, Purse, minute_of
from mcp.clerk.deciding import Draft
from nhi.record import lines

Place = tuple[str, UUID]
COLUMNS = (
    "id", "scope", "target_id", "target_name", "requests_per_second", "burst_size", "concurrency_limit", "timeout",
    "daily_quota", "calls_per_hour", "tokens", "tokens_at", "day", "day_used",
)  # fmt: skip


def places(draft: Draft) -> dict[str, UUID]:
    """What a call's budgets may be about, by scope: the grant only where a grant lets it pass."""
    match, found = draft.decision.match, draft.found
    known = {
        BudgetScope.SERVER: found.id("server_id"),
        BudgetScope.TOOL: found.id("tool_id"),
        BudgetScope.AGENT: found.id("agent_id"),
        BudgetScope.GRANT: match.id if match is not None and match.kind == "grant" else None,
    }
    return {scope.value: target for scope, target in known.items() if target is not None}


def concerns(draft: Draft) -> bool:
    match = draft.decision.match
    return bool(draft.found.row["budgeted"]) or (match is not None and match.max_calls_per_hour is not None)


def make_for_grants(drafts: Iterable[Draft]) -> None:
    """A grant that limits calls per hour counts them in a budget of its own, which is made with its first call."""
    for draft in drafts:
        match = draft.decision.match
        if match is not None and match.kind == "grant" and match.max_calls_per_hour is not None:
            name = lines.line(f"the grant of {draft.begun['agent_name']} for {draft.wish.name}", 400)
            database.run(
                "INSERT INTO mcp_budget (id, scope, target_id, target_name, daily_quota, day_used, created_by_name,"
                " created_at, updated_at) VALUES (%s, 'grant', %s, %s, 0, 0, '', %s, %s)"
                " ON CONFLICT (scope, target_id) DO NOTHING",
                [_sent(value) for value in (uuid7(), match.id, name, draft.found.now, draft.found.now)],
            )


def lock(drafts: Sequence[Draft]) -> tuple[dict[Place, Purse], datetime]:
    """Every budget of the batch, in the order of ids, and the database's time once they are held."""
    wanted = {target for draft in drafts for target in places(draft).values()}
    condition, values = database.ids(sorted(wanted))
    held = " FOR UPDATE" if database.is_postgresql() else ""
    statement = f"SELECT {', '.join(COLUMNS)} FROM mcp_budget WHERE target_id {condition} ORDER BY id{held}"  # noqa: S608 - our own names
    purses = [_purse(row) for row in database.run(statement, values)]
    now = clock.moment(database.run(f"SELECT {_CLOCK[database.is_postgresql()]}")[0][0])
    for purse in purses:
        purse.open(now)
    _count_hours([purse for purse in purses if _counts_hours(purse, drafts)], now)
    _count_flights([purse for purse in purses if purse.concurrency_limit is not None], now)
    return {(purse.scope, purse.target_id): purse for purse in purses}, now


_CLOCK = {True: "CLOCK_TIMESTAMP()", False: "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW')"}


def of(draft: Draft, purses: dict[Place, Purse]) -> list[Purse]:
    own = [purses[place] for place in places(draft).items() if place in purses]
    match = draft.decision.match
    for purse in own:
        if purse.scope == BudgetScope.GRANT and match is not None and match.max_calls_per_hour is not None:
            purse.calls_per_hour = min(purse.calls_per_hour or match.max_calls_per_hour, match.max_calls_per_hour)
    return own


def settle(purses: Iterable[Purse], now: datetime) -> None:
    """Write down what was taken."""
    taken = [purse for purse in purses if purse.taken]
    if not taken:
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


def _purse(row: tuple[Any, ...]) -> Purse:
    read = dict(zip(COLUMNS, row, strict=True))
    for name in ("id", "target_id"):
        read[name] = read[name] if isinstance(read[name], UUID) else UUID(read[name])
    if read["tokens_at"] is not None:
        read["tokens_at"] = clock.moment(read["tokens_at"])
    if isinstance(read["day"], str):
        read["day"] = datetime.fromisoformat(read["day"]).date()
    return Purse(**read)


def _counts_hours(purse: Purse, drafts: Sequence[Draft]) -> bool:
    limited = {
        draft.decision.match.id for draft in drafts if draft.decision.match and draft.decision.match.max_calls_per_hour
    }
    return purse.calls_per_hour is not None or purse.target_id in limited


def _count_hours(purses: Sequence[Purse], now: datetime) -> None:
    if not purses:
        return
    condition, values = database.ids([purse.id for purse in purses])
    since = minute_of(now) - WINDOWS
    rows = database.run(
        f"SELECT budget_id, SUM(used), MIN(minute) FROM mcp_budget_window WHERE budget_id {condition}"  # noqa: S608 - our own names
        " AND minute >= %s GROUP BY budget_id",
        [*values, _sent(since)],
    )
    by_id = {UUID(str(row[0])): row for row in rows}
    for purse in purses:
        if (row := by_id.get(purse.id)) is not None:
            purse.hour_used = int(row[1])
            purse.hour_frees_at = clock.moment(row[2]) + WINDOWS + timedelta(minutes=1)


def _count_flights(purses: Sequence[Purse], now: datetime) -> None:
    """Slots whose lease is past its deadline are those of dead processes: they count no more."""
    if not purses:
        return
    condition, values = database.ids([purse.id for purse in purses])
    rows = database.run(
        f"SELECT budget_id, COUNT(*) FROM mcp_call_slot WHERE budget_id {condition}"  # noqa: S608 - our own names
        " AND deadline > %s GROUP BY budget_id",
        [*values, _sent(now)],
    )
    held = defaultdict(int, {UUID(str(budget_id)): count for budget_id, count in rows})
    for purse in purses:
        purse.in_flight = held[purse.id]


def _sent(value: Any) -> Any:
    """A parameter as the connection takes it."""
    if database.is_postgresql():
        return value
    return value.isoformat() if type(value).__name__ == "date" else database.plain(value)
