"""Budgets, and breakers."""

from typing import Any
from uuid import UUID

from common.api.operations import listing, operation
from common.errors import NotFound
from mcp.api.shapes import limits as shapes
from mcp.choices import BreakerScope
from mcp.limits import breakers, budgets
from mcp.models import Breaker, Budget
from nhi.api.views import ApiView


class Budgets(ApiView):
    @listing(gives=shapes.BudgetShape, filters=shapes.BudgetFilters, needs="mcp.view_budget")
    def get(self, asked: dict[str, Any]) -> Any:
        """List budgets

        With what is used of each."""
        return Budget.objects.filter(**asked)

    @operation(takes=shapes.NewBudget, gives=shapes.BudgetShape, status=201, needs="mcp.add_budget", refusals=(409,))
    def post(self, given: dict[str, Any]) -> Budget:
        """Set a budget

        One for each server, tool, agent or grant. All that apply to a call hold; one that refuses charges none."""
        return budgets.create(actor=self.actor, **given)


class OneBudget(ApiView):
    budget: Budget

    def find(self, **path: Any) -> None:
        rows = Budget.objects.filter(pk=path["budget_id"])
        found = rows.first() if self.actor.may("mcp.view_budget") else None
        if found is None:
            raise NotFound
        self.budget = found

    @operation(gives=shapes.BudgetShape)
    def get(self) -> Budget:
        """Read a budget"""
        return self.budget

    @operation(takes=shapes.Limits, partial=True, gives=shapes.BudgetShape, needs="mcp.change_budget")
    def patch(self, given: dict[str, Any]) -> Budget:
        """Change a budget

        What is used stays used."""
        return budgets.change(actor=self.actor, budget=self.budget, **given)

    @operation(gives=shapes.BudgetShape, needs="mcp.delete_budget")
    def delete(self) -> Budget:
        """Remove a budget

        No limit from here on. The answer is the budget as it was."""
        self.budget.used = budgets.load_usage([self.budget])[self.budget.pk]  # type: ignore[attr-defined]  # it will be gone
        budgets.remove(actor=self.actor, budget=self.budget)
        return self.budget


class Breakers(ApiView):
    @listing(gives=shapes.BreakerShape, filters=shapes.BreakerFilters, needs="mcp.view_breaker")
    def get(self, asked: dict[str, Any]) -> Any:
        """List breakers

        One for each server, and for each other service that Gatehouse calls, models among them: after
        `failure_threshold` faults in a row it is left alone for `recovery_timeout`, then tried by one call. A
        breaker of scope `identity` stops the calls of one identity alone: only that identity's calls failed."""
        lookups = dict(asked)
        scope = lookups.pop("scope", None)
        if scope is not None:
            lookups["agent_id__isnull"] = scope == BreakerScope.SERVER
        return Breaker.objects.filter(**lookups)


class ResetBreaker(ApiView):
    breaker: Breaker

    def find(self, **path: Any) -> None:
        rows = Breaker.objects.for_all().filter(service_name=path["service_name"])
        found = rows.first() if self.actor.may("mcp.view_breaker") else None
        if found is None:
            raise NotFound
        self.breaker = found

    @operation(takes=shapes.BreakerReset, gives=shapes.BreakerShape, needs="mcp.reset_breaker", refusals=(404, 409))
    def post(self, given: dict[str, Any]) -> Breaker:
        """Reset a breaker

        Calls pass at once; faults count from nought. Without `identity_id` this resets the breaker of all callers, with
        it the breaker of that identity alone."""
        breaker = self._of_identity(given["identity_id"]) if given.get("identity_id") else self.breaker
        return breakers.reset(actor=self.actor, breaker=breaker, reason=given["reason"])

    def _of_identity(self, identity_id: UUID) -> Breaker:
        service_name = self.breaker.service_name
        breaker = Breaker.objects.filter(service_name=service_name, agent_id=identity_id).first()
        if breaker is None:
            raise NotFound
        return breaker
