"""The log of calls, newest first."""

from typing import Any
from uuid import UUID

from django.db.models import BooleanField, Value

from common.api.operations import listing, operation
from mcp.api.shapes.invocations import InvocationFilters, InvocationShape
from nhi.actors import Actor
from nhi.api.views import ApiView
from nhi.models import InvocationLog

LOOKUPS = {"since": "timestamp__gte", "until": "timestamp__lt"}


def _for_reader(actor: Actor) -> Any:
    """Rows that know whether an identity reads them: it gets no text that is the operator's."""
    return InvocationLog.objects.annotate(to_identity=Value(not actor.reads_operator_text, BooleanField()))


class Invocations(ApiView):
    @listing(gives=InvocationShape, filters=InvocationFilters, paged="cursor", time_column="timestamp")
    def get(self, asked: dict[str, Any]) -> Any:
        """List calls

        Every call that was made or refused, newest first, by cursor. An identity sees its own; people without the
        right to read the log those of the identities they manage."""
        run_id = asked.pop("run_id", None)
        lookups = {LOOKUPS.get(name, name): value for name, value in asked.items()}
        rows = _for_reader(self.actor).visible_to(self.actor).filter(**lookups)
        return rows if run_id is None else rows.in_runs([run_id])


class OneInvocation(ApiView):
    row: InvocationLog

    def find(self, **path: UUID) -> None:
        self.row = self.visible(_for_reader(self.actor), path["call_id"])

    @operation(gives=InvocationShape)
    def get(self) -> InvocationLog:
        """Read a call's row"""
        return self.row
