"""Dialogs that set, change and remove a budget."""

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.utils.functional import cached_property

from common.console.confirmation_dialogs import ApiExample
from common.console.forms import Chips, ConsoleForm
from common.console.pages import link
from common.errors import NotAllowed, NotFound
from mcp.choices import BudgetScope
from mcp.limits import budgets
from mcp.limits.budgets import MAX_LIMIT, MAX_RATE, MAX_TIMEOUT_SECONDS, MIN_RATE, MIN_TIMEOUT_SECONDS
from mcp.models import Budget, Server
from nhi.console import row_by_name_fields
from nhi.console.base import ActorDialog
from nhi.console.row_by_name_fields import NamedRows, RowByNameField
from nhi.models import ToolPermission

row_by_name_fields.NAMED_ROWS.setdefault("server", NamedRows("server", Server.objects.visible_to))


def _whole(label: str, help_text: str) -> forms.IntegerField:
    said = f"Write a whole number from 1 to {MAX_LIMIT:,} for “{label}”, or leave it empty: no such limit."
    return forms.IntegerField(
        label=label, required=False, help_text=help_text, min_value=1, max_value=MAX_LIMIT, error_messages=_always(said)
    )


def _number(label: str, least: float, most: float, help_text: str) -> forms.FloatField:
    said = f"Write a number from {least:,} to {most:,} for “{label}”, or leave it empty: no such limit."
    return forms.FloatField(
        label=label, required=False, help_text=help_text, min_value=least, max_value=most, error_messages=_always(said)
    )


def _always(said: str) -> dict[str, str]:
    """One sentence for whatever is wrong with a number: what it may be."""
    return dict.fromkeys(("invalid", "min_value", "max_value"), said)


class LimitsForm(ConsoleForm):
    """Each limit may be left out; those that are given all hold."""

    calls_per_hour = _whole("Calls per hour", "In no sixty minutes more than this.")
    daily_quota = _whole("Calls per day", "Days are UTC's.")
    requests_per_second = _number(
        "Calls per second", MIN_RATE, MAX_RATE, f"{MIN_RATE:g} to {MAX_RATE:,}: 0.5 is one call in two seconds."
    )
    burst_size = _whole("Burst", "How many may come at once before “Calls per second” holds them back; needs that.")
    concurrency_limit = _whole("Calls at once", "How many may be under way at the same time.")
    timeout = _number(
        "Seconds a call may take",
        MIN_TIMEOUT_SECONDS,
        MAX_TIMEOUT_SECONDS,
        f"{MIN_TIMEOUT_SECONDS:g} to {MAX_TIMEOUT_SECONDS:,} seconds.",
    )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if (
            cleaned.get("burst_size")
            and "requests_per_second" not in self.errors
            and not cleaned["requests_per_second"]
        ):
            said = "A burst needs a rate: set “Calls per second” too, or leave “Burst” empty."
            self.add_error("burst_size", said)
        if not any(name in self.errors or cleaned.get(name) for name in budgets.LIMIT_FIELDS):
            self.add_error(None, "Set at least one limit. To have none at all, remove the budget.")
        return cleaned

    @property
    def limits(self) -> dict[str, Any]:
        given = {name: self.cleaned_data.get(name) for name in budgets.LIMIT_FIELDS}
        return {**given, "daily_quota": given["daily_quota"] or 0}


class AddForm(LimitsForm):
    """Whose calls are counted, and how many of them there may be."""

    scope = forms.ChoiceField(label="Of", choices=BudgetScope.choices, initial=BudgetScope.AGENT, widget=Chips)
    server = RowByNameField("server", label="Server", required=False)
    agent = RowByNameField("caller", label="Agent", required=False)
    tool = RowByNameField("tool", label="Tool", required=False)

    field_order = ("scope", "server", "agent", "tool")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        shown = {"server": "server", "agent": "agent|grant", "tool": "tool|grant"}
        for name, scopes in shown.items():
            self.fields[name].shown_for = f"scope={scopes}"  # type: ignore[attr-defined]  # read by the field's template

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        scope = cleaned.get("scope", "")
        named = ("agent", "tool") if scope == BudgetScope.GRANT else (scope,)
        self.aliases = {"target_id": named[-1]}
        for name in named:
            if name in self.fields and name not in self.errors and not cleaned.get(name):
                self.add_error(name, f"Name the {name}.")
        if scope and not any(name in self.errors for name in named):
            self._look_at(scope, named[-1])
        return cleaned

    def _look_at(self, scope: str, name: str) -> None:
        """What can only be known of both sides together, and what the verb would say in a second round."""
        given = self.cleaned_data
        if self.target_id is None:
            said = f"There is no grant of {given['tool']} to {given['agent']} that holds. Give it first."
            self.add_error(name, said)
        elif self.errors and Budget.objects.filter(scope=scope, target_id=self.target_id).exists():
            self.add_error(name, "This has a budget; change that one.")

    @cached_property
    def target_id(self) -> UUID | None:
        """What was named; a grant by its two sides."""
        given = self.cleaned_data
        if given["scope"] != BudgetScope.GRANT:
            found: UUID = given[given["scope"]].pk
            return found
        grant = ToolPermission.objects.live().filter(agent=given["agent"], tool=given["tool"]).first()
        return grant.pk if grant else None


class Setting(ActorDialog):
    right, doing = "", ""

    def check(self) -> None:
        if self.actor.only_reads:
            raise NotAllowed(f"You may not {self.doing}.")
        self.actor.require(self.right, self.doing)

    def back(self) -> str:
        return link("mcp_budget_changelist")

    def form(self, data: Any = None) -> ConsoleForm:
        return row_by_name_fields.bind_name_fields(super().form(data), self.actor)


class Add(Setting):
    title = "Set a budget"
    button = "Set the budget"
    lead = "A call that would go past it is refused, and costs nothing. Empty: no such limit."
    right, doing = "mcp.add_budget", "set budgets"
    form_class = AddForm

    def initial(self) -> dict[str, Any]:
        """Links from other pages name what it is about."""
        query = self.request.GET
        scope = query.get("scope", "")
        kinds = {"server": "server", "agent": "caller", "tool": "tool"}
        named = {
            name: row_by_name_fields.initial_name(kind, self.actor, query.get(name, "")) for name, kind in kinds.items()
        }
        return {**named, **({"scope": scope} if scope in BudgetScope.values else {})}

    def by_api(self) -> ApiExample:
        return ApiExample("/api/nhi/mcp/budgets", {"scope": "agent", "target_id": "…", "calls_per_hour": 60})

    def act(self, form: ConsoleForm) -> str:
        assert isinstance(form, AddForm)
        assert form.target_id is not None  # the form has looked
        scope = form.cleaned_data["scope"]
        made = budgets.create(actor=self.actor, scope=scope, target_id=form.target_id, **form.limits)
        messages.success(self.request, f"The budget of {made.target_name} holds from now on.")
        return self.back()


class OfBudget(Setting):
    def check(self) -> None:
        super().check()
        found = Budget.objects.filter(pk=self.kwargs["pk"]).first()
        if found is None:
            raise NotFound
        self.budget: Budget = found

    @cached_property
    def _path(self) -> str:
        return f"/api/nhi/mcp/budgets/{self.budget.pk}"


class Change(OfBudget):
    button = "Change the budget"
    lead = "What is used stays used: only the limits change. Empty: no such limit."
    right, doing = "mcp.change_budget", "change budgets"
    form_class = LimitsForm

    @property
    def title(self) -> str:  # type: ignore[override]  # the name is known once there is a budget
        return f"Change the budget of {self.budget.target_name}"

    def initial(self) -> dict[str, Any]:
        return {name: getattr(self.budget, name) or None for name in budgets.LIMIT_FIELDS}

    def by_api(self) -> ApiExample:
        return ApiExample(self._path, {"calls_per_hour": 60}, method="PATCH")

    def act(self, form: ConsoleForm) -> str:
        assert isinstance(form, LimitsForm)
        budgets.change(actor=self.actor, budget=self.budget, **form.limits)
        messages.success(self.request, f"The budget of {self.budget.target_name} was changed.")
        return self.back()


class Remove(OfBudget):
    danger = True
    right, doing = "mcp.delete_budget", "remove budgets"
    lead = "Nothing of this counts or limits from then on; what other budgets say still holds."

    @property
    def title(self) -> str:  # type: ignore[override]  # the name is known once there is a budget
        return f"Remove the budget of {self.budget.target_name}"

    @property
    def button(self) -> str:  # type: ignore[override]  # the same
        return self.title

    def by_api(self) -> ApiExample:
        return ApiExample(self._path, method="DELETE")

    def act(self, form: ConsoleForm) -> str:
        budgets.remove(actor=self.actor, budget=self.budget)
        messages.success(self.request, f"The budget of {self.budget.target_name} is gone.")
        return self.back()
