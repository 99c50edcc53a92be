"""Endpoints: how agents are reached, and how much they take."""

from typing import Any

from a2a import endpoint_changes, endpoints
from a2a.api.base import TasksView
from a2a.api.cards import OfAgent
from a2a.api.shapes import endpoints as shapes
from a2a.endpoints import Settings
from common.api.operations import listing, operation
from nhi.choices import Kind
from nhi.models import Identity

PARTS = ("authentication", "rate_limiting", "capabilities")


class Endpoints(TasksView):
    @listing(gives=shapes.EndpointShape, filters=shapes.EndpointFilters)
    def get(self, asked: dict[str, Any]) -> Any:
        """List endpoints

        Of every agent that you may see, whether or not somebody has changed it."""
        rows = Identity.objects.of_kind(Kind.AGENT).visible_to(self.actor).filter(**asked)
        return rows.select_related("endpoint").order_by("name", "id")


class OneEndpoint(OfAgent):
    @operation(gives=shapes.EndpointShape)
    def get(self) -> Settings:
        """Read an endpoint"""
        return endpoints.of(self.identity)

    @operation(takes=shapes.EndpointChange, partial=True, gives=shapes.EndpointShape)
    def patch(self, given: dict[str, Any]) -> Settings:
        """Change an endpoint

        For who may change the identity, and the right to change endpoints. It holds for the next request. `base_path`
        follows from the agent's name."""
        flat = {name: value for name, value in given.items() if name not in PARTS}
        for part in PARTS:
            flat |= given.get(part, {})
        if "open_as_id" in flat:
            pk = flat.pop("open_as_id")
            of_callers = Identity.objects.of_kind(Kind.AGENT, Kind.SERVICE_ACCOUNT)
            flat["open_as"] = None if pk is None else self.named(of_callers, "authentication.open_as_id", pk)
        endpoint_changes.change(actor=self.actor, identity=self.identity, **flat)
        return endpoints.of(self.identity)
