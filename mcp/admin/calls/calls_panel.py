"""A call beside the log: its essentials, for who goes through the list with its own page a key away."""

from typing import Any

from common.console import times
from common.console.pages import link, wants_part
from common.templatetags.console import spell_invisible
from mcp.admin.calls.calls_page import CallPage


class CallPanel(CallPage):
    """The page's own facts, to the same people."""

    template = "admin/mcp/calls/panel.html"

    def context(self) -> dict[str, Any]:
        known = super().context()
        return {
            **known,
            "title": spell_invisible(f"At a glance: {self.row}, {times.exact(self.row.timestamp)}"),
            "page_url": link("nhi_invocationlog_call", self.row.pk),
            "level": 3 if wants_part(self.request) else 2,
            "decided_by": next((check for check in known["checks"] if check.decides), None),
        }

    def _neighbours(self) -> list[dict[str, Any]]:
        """They are in the list that this stands beside."""
        return []
