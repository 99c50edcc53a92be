"""The invocation log as a file."""

from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet

from mcp.admin.calls.filters import FILTERS, within_a_day
from nhi.console.log_export import LogExport
from nhi.models import InvocationLog


class Export(LogExport):
    title = "Export calls"
    log = "calls"
    changelist = "nhi_invocationlog_changelist"
    filters = FILTERS
    time = "timestamp"
    head = (
        "timestamp", "agent_name", "agent_role", "tool_name", "method", "status", "reason", "error_code",
        "error_message", "duration", "redaction_applied", "args_hash", "source", "thread_id", "request_id", "run_id",
        "id", "calls",
    )  # fmt: skip
    unfiltered = "span=24h"

    def rows(self) -> QuerySet[Any]:
        return within_a_day(InvocationLog.objects.visible_to(self.actor), self.request.GET)

    def cells(self, row: InvocationLog) -> Iterable[Any]:
        return [getattr(row, name) for name in self.head[1:]]
