"""Budgets and breakers."""

from typing import Any

from rest_framework import serializers

from common.api.fields import Identifier, Moment, Text, Whole, Word
from common.api.shapes import Filters, Input, Reason, Shape
from common.api.value_fields import Duration, Number, Said, Seconds, SecondsGiven
from mcp.api.shapes import examples
from mcp.choices import BreakerScope, BreakerState, BudgetScope
from mcp.limits import budgets
from mcp.models import Budget
from nhi.api.shapes import examples as story


class UsedShape(Shape):
    day = Whole(help_text="Calls since midnight, UTC.")
    hour = Whole(help_text="Calls of the last 60 minutes.")
    in_flight = Whole()
    tokens = Number(allow_null=True, help_text="What the bucket of requests per second holds now.")


class BudgetRows(serializers.ListSerializer[Any]):
    """What is used of all of a page is counted at once."""

    def to_representation(self, data: Any) -> list[Any]:
        rows = list(data)
        found = budgets.load_usage(rows)
        for row in rows:
            row.used = found[row.pk]
        return super().to_representation(rows)


class BudgetShape(Shape):
    id = Identifier()
    scope = Word(choices=BudgetScope.choices)
    target_id = Identifier()
    target_name = Text()
    requests_per_second = Number(allow_null=True)
    burst_size = Whole(allow_null=True)
    concurrency_limit = Whole(allow_null=True)
    timeout = Seconds(allow_null=True)
    daily_quota = Whole(help_text="0 for none.")
    calls_per_hour = Whole(allow_null=True)
    used = UsedShape()
    created_by = Said(source="created_by_name")
    created_at = Moment()
    updated_at = Moment()

    example = {
        "id": examples.BUDGET,
        "scope": "agent",
        "target_id": story.DEPLOY_BOT,
        "target_name": "deploy-bot",
        "requests_per_second": 5.0,
        "burst_size": 10,
        "concurrency_limit": None,
        "timeout": "30s",
        "daily_quota": 1000,
        "calls_per_hour": None,
        "used": {"day": 12, "hour": 3, "in_flight": 0, "tokens": 10.0},
        "created_by": "mara",
        "created_at": story.NOW,
        "updated_at": story.NOW,
    }

    class Meta:
        list_serializer_class = BudgetRows

    def to_representation(self, instance: Budget) -> dict[str, Any]:
        if not hasattr(instance, "used"):
            instance.used = budgets.load_usage([instance])[instance.pk]  # type: ignore[attr-defined]  # for its field
        return super().to_representation(instance)


class Limits(Input):
    """At least one of them; null, or 0 for the quota, takes one away."""

    requests_per_second = Number(required=False, allow_null=True, help_text="0.001 to 100000.")
    burst_size = Whole(required=False, allow_null=True, help_text="With requests_per_second.")
    concurrency_limit = Whole(required=False, allow_null=True, help_text="At least 1. It refuses and never queues.")
    timeout = SecondsGiven(required=False, allow_null=True, help_text="0.1 to 600 seconds.")
    daily_quota = Whole(required=False, help_text="0 for none.")
    calls_per_hour = Whole(required=False, allow_null=True, help_text="At least 1, in any 60 minutes.")

    example = {"requests_per_second": 5, "burst_size": 10, "daily_quota": 1000}


class NewBudget(Limits):
    scope = Word(choices=BudgetScope.choices)
    target_id = Identifier(help_text="The server's, the tool's, the agent's or the grant's.")

    example = {"scope": "agent", "target_id": story.DEPLOY_BOT, **Limits.example}


class BudgetFilters(Filters):
    scope = Word(choices=BudgetScope.choices, required=False)
    target_id = Identifier(required=False)


class BreakerShape(Shape):
    service_name = Text()
    scope = Word(choices=BreakerScope.choices, help_text="Whose calls it stops: of all callers, or of one identity.")
    identity_id = Identifier(source="agent_id", allow_null=True, help_text="The identity of scope `identity`.")
    identity_name = Text(source="agent_name")
    state = Word(choices=BreakerState.choices)
    failure_count = Whole(help_text="Faults in a row.")
    failure_threshold = Whole()
    last_failure_time = Moment(allow_null=True)
    recovery_timeout = Duration()
    last_state_change = Moment()

    example = {
        "service_name": "todo",
        "scope": "server",
        "identity_id": None,
        "identity_name": "",
        "state": "OPEN",
        "failure_count": 5,
        "failure_threshold": 5,
        "last_failure_time": story.NOW,
        "recovery_timeout": "PT30S",
        "last_state_change": story.NOW,
    }


class BreakerFilters(Filters):
    state = Word(choices=BreakerState.choices, required=False)
    scope = Word(choices=BreakerScope.choices, required=False)


class BreakerReset(Reason):
    identity_id = Identifier(required=False, help_text="The identity whose own breaker is reset.")

    example = {"reason": "The server was restarted"}
