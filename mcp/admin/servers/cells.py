"""Table cells of servers."""

import hashlib
import shlex
from collections.abc import Sequence
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString

from common.console import badges
from common.console.lists import Column
from common.templatetags.console import badge, when
from mcp.choices import Transport
from mcp.models import Server
from nhi.console import columns


def standing(server: Server) -> badges.Badge:
    """How it is doing; one that was switched off is disabled, whatever it was before."""
    return badges.find("mcp.Connection", server.status if server.enabled else "disabled")


def _status(server: Server) -> SafeString:
    return format_html(
        '{} <span class="gh-subtle gh-wide">since {}</span>', badge(standing(server)), when(server.status_since)
    )


def _tools(row: Any) -> Any:
    if not row.quarantined:
        return row.tool_count
    return format_html("{} {}", row.tool_count, badge(said_quarantined(row.quarantined)))


def said_quarantined(count: int) -> badges.Badge:
    return badges.find("mcp.DefinitionState", "quarantined").saying(f"{count} quarantined")


def _tools_text(row: Any) -> str:
    return f"{row.tool_count} ({row.quarantined} quarantined)" if row.quarantined else str(row.tool_count)


def _percent(row: Any) -> str:
    percent = row.numbers.error_percent
    return "" if percent is None else f"{percent:g} %"


COLUMNS = (
    Column("Name", lambda row: row.name, str, "name", narrow=True),
    Column("Status", _status, lambda row: standing(row).label, "status", narrow=True),
    columns.plain("Transport", lambda row: Transport(row.transport).label, sort="transport"),
    Column("Tools", _tools, _tools_text),
    columns.plain("Calls 24 h", lambda row: row.numbers.calls or ""),
    columns.plain("Errors", _percent),
    columns.plain("p95", lambda row: row.numbers.p95),
    columns.plain("In flight", lambda row: row.in_flight or ""),
    columns.moment("Last check", lambda row: row.last_checked_at, sort="last_checked_at", narrow=True),
)


def command_line(command: str, arguments: Sequence[str]) -> str:
    """As a shell would be told it, whole: what is long is exactly what must not be cut."""
    return shlex.join([command, *arguments]) if command else ""


def digest(given: dict[str, Any]) -> str:
    """Stands for the command, its arguments and its environment in the form that comes back."""
    return hashlib.sha256(repr((given["command"], given["args"], given["env"])).encode()).hexdigest()
