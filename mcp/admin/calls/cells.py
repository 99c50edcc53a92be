"""How one call is written in a line: the same in the log, in exports and beside other calls."""

from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString

from common.console import badges, times
from common.console.badges import Badge
from common.console.lists import Column
from common.templatetags.console import badge, icon, outside
from nhi.console import columns

#: Columns of the log that the line of a call does not show.
NOT_SHOWN = (
    "args_hash", "chain", "details", "error_message", "row_mac", "source", "thread_id", "session_id", "task_id",
)  # fmt: skip


def state(row: Any) -> Badge:
    """A call whose process is gone is an error of its own kind."""
    return badges.find("nhi.CallStatus", "lost" if row.reason == "lost" else row.status)


def outcome(row: Any) -> SafeString:
    reason = format_html(' <code class="gh-subtle">{}</code>', row.reason) if row.reason not in ("", "lost") else ""
    redacted = format_html(' <span class="gh-count">{} redacted</span>', icon("ink_eraser")) if _redacted(row) else ""
    return format_html("{}{}{}{}{}", badge(state(row)), reason, counted(row), redacted, _stop(row))


def counted(row: Any) -> SafeString:
    """How many calls a row stands for, where it is more than itself."""
    calls = getattr(row, "calls", 1)
    return format_html(' <span class="gh-count">{} calls</span>', f"{calls:,}") if calls > 1 else SafeString("")


def _stop(row: Any) -> SafeString:
    """Beside a call under way: one call cannot be ended by itself, the dialog says what ends with its agent."""
    url = getattr(row, "stop_url", "")
    words = (
        ' <a class="gh-btn gh-btn--small" href="{}" data-dialog>Stop the agent<span class="gh-hidden"> {}</span></a>'
    )
    return format_html(words, url, row.agent_name) if url else SafeString("")


def _redacted(row: Any) -> bool:
    return bool(row.redaction_applied)


def outcome_text(row: Any) -> str:
    calls = f"{row.calls:,} calls" if getattr(row, "calls", 1) > 1 else ""
    redacted = "redacted" if _redacted(row) else ""
    return ", ".join(part for part in (state(row).label, row.reason, calls, redacted) if part)


def tool(row: Any) -> str:
    """As its caller named it: no tool need go by that, and it is drawn as text of others."""
    return f"{row.tool_name}.{row.method}"


def _request(row: Any) -> SafeString:
    """The run that it was made in; else the end of the id: its beginning is the time, which calls share."""
    if within := getattr(row, "within", None):
        return format_html('<a href="{}">{}</a>', within.url, within.name)
    return format_html(
        '<a href="?find={}" title="Every call of request {}"><code>…{}</code></a>',
        row.request_id, row.request_id, str(row.request_id)[-6:],
    )  # fmt: skip


COLUMNS = (
    columns.moment("Time", lambda row: row.timestamp, form="log", narrow=True),
    columns.plain("Agent", lambda row: row.agent_name, narrow=True),
    Column("Tool", lambda row: outside(tool(row)), tool, narrow=True),
    Column("Outcome", outcome, outcome_text, narrow=True),
    Column("Took", lambda row: times.lasted(row.duration), lambda row: row.duration),
    Column("Request", _request, lambda row: row.request_id),
)
