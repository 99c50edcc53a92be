"""The log of calls, newest first."""

from typing import Any
from uuid import UUID

from common.api.operations import listing, operation
from mcp.api.shapes.invocations import InvocationFilters, InvocationShape
from nhi.api.views import ApiView
from nhi.models import InvocationLog

LOOKUPS = {"since": "timestamp__gte", "until": "timestamp__lt"}


class Invocations(ApiView):
    @listing(of=InvocationShape, filters=InvocationFilters, paged="cursor", at="timestamp")
    def get(self, asked: dict[str, Any]) -> Any:
        """List calls

        Every call that was made or refused, newest first, by cursor. An identity sees its own; people without the
        right to read the log those of the identities they manage."""
        run_id = asked.pop("run_id", None)
        lookups = {LOOKUPS.get(name, name): value for name, value in asked.items()}
        rows = InvocationLog.objects.visible_to(self.actor).filter(**lookups)
        return rows if run_id is None else rows.in_runs([run_id])


class OneInvocation(ApiView):
    row: InvocationLog

    def find(self, **path: UUID) -> None:
        self.row = self.visible(InvocationLog.objects.all(), path["call_id"])

    @operation(gives=InvocationShape)
    def get(self) -> InvocationLog:
        """Read a call's row"""
        return self.row
