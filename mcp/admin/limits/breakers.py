"""Breakers: which services are left alone now, and since when."""

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from common.console import badges
from common.console.confirmation_dialogs import ApiExample
from common.console.forms import ConsoleForm, ReasonField
from common.console.lists import Bulk, Column, Filter, choice_filter
from common.console.pages import Tab, link, link_if_any
from common.errors import NotAllowed, NotFound
from common.templatetags.console import badge
from mcp.admin.servers import health_reports
from mcp.choices import BreakerScope, BreakerState
from mcp.limits import breakers
from mcp.models import Breaker
from nhi.actors import Actor
from nhi.console import attention_counts, columns
from nhi.console.attention_counts import AttentionItem
from nhi.console.base import ActorDialog, VisibleRowsAdmin
from nhi.console.request_actor import actor_of, may_change

Rows = QuerySet[Any]
RESET = ("The service is back", "The fault was ours", "Trying it now")


def _callers(row: Any) -> SafeString | str:
    """Whose calls it stops."""
    if row.agent_id is None:
        return "All callers"
    url = link_if_any("nhi_identity_hub", row.agent_id)
    return format_html('<a href="{}">{}</a>', url, row.agent_name) if url else format_html("{}", row.agent_name)


def visible(actor: Actor) -> Rows:
    """All for who reads breakers; for others those of servers they own."""
    rows: Rows = Breaker.objects.select_related("server")
    return rows if actor.may("mcp.view_breaker") else rows.filter(server__owner_id=actor.id)


def _service(row: Any) -> SafeString:
    url = link_if_any("mcp_server_hub", row.server_id) if row.server_id else ""
    return format_html('<a href="{}">{}</a>', url, row.service_name) if url else format_html("{}", row.service_name)


def _next(row: Any) -> str:
    """When a call may try whether the service is back."""
    if row.state != BreakerState.OPEN:
        return ""
    at = row.last_state_change + timedelta(seconds=row.recovery_timeout)
    left = round((at - timezone.now()).total_seconds())
    return f"in {left} s" if left > 0 else "with the next call"


def _faults(row: Any) -> str:
    return f"{row.failure_count} of {row.failure_threshold}"


def _reset(row: Any) -> SafeString:
    if not row.resettable:
        return SafeString("")
    return format_html(
        '<a class="gh-btn gh-btn--small" href="{}" data-dialog>Reset<span class="gh-hidden"> {}</span></a>',
        link("mcp_breaker_reset", row.pk), row,
    )  # fmt: skip


@admin.register(Breaker)
class BreakerAdmin(VisibleRowsAdmin):
    title = "Breakers"
    lead = (
        "A service that fails several times in a row is left alone for a while, and then tried by one call. When it"
        " fails for one identity only, the calls of that identity alone are refused."
    )
    view_right = "mcp.view_breaker"
    columns = (
        Column("Service", _service, lambda row: row.service_name, sort="service_name", narrow=True),
        Column("Stops", _callers, lambda row: row.agent_name or "All callers", narrow=True),
        columns.state(
            "State",
            lambda row: badges.find("mcp.BreakerState", row.state),
            lambda row: badge(row.state, "mcp.BreakerState"),
            sort="state",
        ),
        Column("Faults in a row", _faults, _faults, narrow=True),
        columns.moment("Last fault", lambda row: row.last_failure_time),
        Column("Rests for", lambda row: f"{row.recovery_timeout} s", lambda row: f"PT{row.recovery_timeout}S"),
        columns.moment("Since", lambda row: row.last_state_change, sort="last_state_change"),
        columns.plain("Next probe", _next),
        Column("Reset", _reset, lambda _row: "", narrow=True),
    )
    filters = (
        choice_filter("state", "State", "state", BreakerState.choices),
        Filter(
            "scope",
            "Stops",
            lambda rows, value: rows.filter(agent_id__isnull=value == BreakerScope.SERVER),
            lambda _request: list(BreakerScope.choices),
        ),
    )
    search = ("service_name__icontains", "agent_name__icontains")
    search_words = "Service or identity"
    order = ("-state", "service_name", "agent_name", "id")
    bulk: tuple[Bulk, ...] = ()
    empty_title = "No breaker yet"
    empty_words = "Each server gets one with its first call."
    empty_icon = "electrical_services"
    api_path = "/api/nhi/mcp/breakers"

    def siblings(self, _request: HttpRequest) -> list[Tab]:
        return health_reports.siblings(self.list_name)

    def visible(self, request: HttpRequest) -> Rows:
        return visible(actor_of(request))

    def prepare(self, request: HttpRequest, rows: list[Any]) -> None:
        allowed = may_change(request, "mcp.reset_breaker")
        for row in rows:
            row.resettable = allowed and (row.state != BreakerState.CLOSED or row.failure_count > 0)

    def pages(self) -> list[URLPattern]:
        return [path("<uuid:pk>/reset/", Reset.as_view(), name="mcp_breaker_reset")]


class ResetForm(ConsoleForm):
    reason: forms.CharField = ReasonField(*RESET)


class Reset(ActorDialog):
    form_class = ResetForm
    lead = "Calls go through at once; the next faults count from nought. If the service still fails, it opens again."

    def check(self) -> None:
        found = visible(self.actor).filter(pk=self.kwargs["pk"]).first()
        if found is None:
            raise NotFound
        self.breaker: Breaker = found
        if self.actor.only_reads:
            raise NotAllowed("You may not reset breakers.")
        self.actor.require("mcp.reset_breaker", "reset breakers")

    @property
    def title(self) -> str:  # type: ignore[override]  # the name is known once there is a breaker
        return f"Reset {self.breaker}"

    @property
    def button(self) -> str:  # type: ignore[override]  # the same
        return self.title

    def back(self) -> str:
        return link("mcp_breaker_changelist")

    def by_api(self) -> ApiExample:
        identity = {"identity_id": str(self.breaker.agent_id)} if self.breaker.agent_id else {}
        return ApiExample(f"/api/nhi/mcp/breakers/{self.breaker.service_name}/reset", {"reason": "…", **identity})

    def act(self, form: ConsoleForm) -> str:
        breakers.reset(actor=self.actor, breaker=self.breaker, reason=form.cleaned_data["reason"])
        messages.success(self.request, f"The breaker of {self.breaker} is closed: calls flow.")
        return self.back()


def tripped(actor: Actor) -> Rows:
    """For who can do something about them."""
    rows = visible(actor).exclude(state=BreakerState.CLOSED)
    return rows if actor.may("mcp.reset_breaker") and not actor.only_reads else rows.none()


class Open(AttentionItem):
    """Names the first ones: which service is away matters more than how many."""

    def said(self, count: int, actor: Actor) -> str:
        names = [str(row) for row in tripped(actor)[:3]]
        return f"{super().said(count, actor)}: {', '.join(names)}{' …' if count > len(names) else ''}"


attention_counts.add_items(
    Open(
        "breakers_open", tripped, "{} breaker open", "{} breakers open", "electrical_services", "mcp_breaker_changelist"
    )
)
