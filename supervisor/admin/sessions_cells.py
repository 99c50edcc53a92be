"""How a session is written: the same in the list and on its own page."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from common.console import badges
from common.console.badges import Badge
from common.console.lists import Column
from common.templatetags.console import badge, outside
from nhi.console import columns
from supervisor.admin import executions_cells
from supervisor.choices import ExecutionState, SessionState
from supervisor.models import Session

NOTHING = '<span class="gh-subtle">{}</span>'


@dataclass(frozen=True)
class Timer:
    label: str
    #: How much of it has passed, and all of it; no limit is said in words.
    passed: str
    limit: str


def standing(session: Session) -> Badge:
    """Open is what can be spoken in; one that waits for a place can, and its messages wait too."""
    if session.state == SessionState.CLOSED:
        return badges.find("supervisor.SessionState", session.state)
    if session.is_closing or session.execution.cancel_requested_at is not None:
        return badges.find("supervisor.ExecutionState", "cleanup").saying("Closing")
    if session.execution.state == ExecutionState.QUEUED:
        return badges.find("supervisor.ExecutionState", "queued").saying("Waits for a place")
    return badges.find("supervisor.SessionState", session.state)


def timers(session: Session) -> list[Timer]:
    """Both clocks of one whose process runs."""
    began = session.execution.start_time
    if session.state == SessionState.CLOSED or began is None:
        return []
    agent, now = session.agent, timezone.now()
    idle = _passed(now - max(began, session.last_message_at))
    limit = "without limit" if agent.keep_alive else f"of {_span(agent.idle_timeout)}"
    return [
        Timer("Idle", idle, limit),
        Timer("Total", _passed(now - began), f"of {_span(session.execution.timeout)}"),
    ]


def lasted(session: Session) -> str:
    began: datetime | None = session.execution.start_time
    return executions_cells.span((session.closed_at or timezone.now()) - began) if began else ""


def _passed(span: timedelta) -> str:
    return _span(int(span.total_seconds()))


def _span(seconds: int) -> str:
    """`00:05`, `1:00:00`: clocks that run beside each other are written alike."""
    minutes, rest = divmod(max(seconds, 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"


def _why(row: Any) -> SafeString:
    return outside(row.close_reason, 200) if row.close_reason else format_html(NOTHING, "\N{EN DASH}")


COLUMNS = (
    # As its run is called: sessions of one agent differ by their numbers.
    Column("Session", lambda row: str(row.execution), lambda row: str(row.execution), "agent__name", narrow=True),
    columns.state("State", standing, lambda row: badge(standing(row))),
    columns.plain("Opened by", lambda row: row.opened_by_name, sort="opened_by_name"),
    columns.moment("Opened", lambda row: row.created_at, sort="created_at", narrow=True),
    columns.plain("Lasted", lasted),
    columns.plain("Messages", lambda row: row.messages_count, sort="messages_count"),
    columns.moment("Last message", lambda row: row.last_message_at, sort="last_message_at"),
    Column("Why it ended", _why, lambda row: row.close_reason),
)
