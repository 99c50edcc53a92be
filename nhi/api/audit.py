"""The record: audit events, newest first."""

from typing import Any

from common.api.operations import listing
from nhi.api.shapes.audit import EventFilters, EventShape
from nhi.api.views import ApiView
from nhi.models import AuditEvent

LOOKUPS = {"since": "at__gte", "until": "at__lt"}


class AuditEvents(ApiView):
    @listing(gives=EventShape, filters=EventFilters, paged="cursor")
    def get(self, asked: dict[str, Any]) -> Any:
        """List audit events

        Newest first, by cursor. Those who may not read the record see what they did and what was done to them."""
        lookups = {LOOKUPS.get(name, name): value for name, value in asked.items()}
        return AuditEvent.objects.visible_to(self.actor).filter(**lookups)
