"""Calls that wait for a person: the list, what needs deciding at Home, and a line in the sidebar."""

from typing import Any

from django.contrib import admin
from django.db.models import Case, Exists, OuterRef, QuerySet, Value, When
from django.db.models.functions import Now
from django.http import HttpRequest
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from common.console import navigation, times
from common.console.badges import Badge
from common.console.lists import Bulk, Column, Filter, Preset, text_filter
from common.console.navigation import SidebarItem
from common.console.pages import link
from common.templatetags.console import badge, outside, spell_invisible
from mcp.admin.approvals import decision_dialogs
from mcp.admin.approvals.detail import ApprovalPage, standing
from mcp.approvals import decisions
from mcp.choices import ApprovalState
from mcp.models import CallApproval
from nhi.actors import Actor
from nhi.console import attention_counts, columns
from nhi.console.attention_counts import AttentionItem
from nhi.console.base import VisibleRowsAdmin
from nhi.console.request_actor import actor_of, may

Rows = QuerySet[Any]
IS_WAITING = {"state": ApprovalState.PENDING, "expires_at__gt": Now()}
#: What the sidebar and Home count: the list of them holds as many.
MINE, MINE_WORDS = "decide=me", "For me to decide"
#: Waiting calls about which nobody but a superuser may decide.
SUPERUSER = "superuser"
STATES = {
    "pending": "Waiting",
    "approved": "Approved, not used yet",
    "used": "Approved and used",
    "refused": "Refused",
    "expired": "Nobody decided, or nobody used it",
}


def by_state(rows: Rows, value: str) -> Rows:
    """What is past its time counts as expired, also before somebody wrote that down."""
    open_states = (ApprovalState.PENDING, ApprovalState.APPROVED)
    late = rows.filter(state__in=open_states, expires_at__lte=Now())
    if value == ApprovalState.EXPIRED:
        return rows.filter(state=value) | late
    return rows.filter(state=value, expires_at__gt=Now()) if value in open_states else rows.filter(state=value)


def _state(row: Any) -> SafeString:
    return badge(standing(row))


def _words(row: Any) -> Badge:
    return standing(row)


def _time(row: Any) -> SafeString:
    """How long there is to decide, or when somebody did."""
    if row.is_waiting:
        return format_html("{} left", times.lasts(row.expires_at - timezone.now()))
    who = f" by {row.decided_by_name}" if row.decided_by_name else ""
    moment = row.decided_at or row.expires_at
    return format_html("{}{}", times.absolute(moment, timezone.now()), who)


def _decide(row: Any) -> SafeString:
    if not row.is_waiting:
        return SafeString("")
    if row.why_not:
        alone = " Only a superuser can." if row.needs_superuser else ""
        return format_html('<span class="gh-subtle">{}{}</span>', row.why_not, alone)
    words = (("approve", "Approve", " gh-btn--primary"), ("refuse", "Refuse", ""))
    return format_html_join(" ", "{}", ((_button(row, *verb),) for verb in words))


def _button(row: Any, verb: str, label: str, tone: str) -> SafeString:
    return format_html(
        '<a class="gh-btn gh-btn--small{}" href="{}" data-dialog>{}<span class="gh-hidden"> {}</span></a>',
        tone, link(f"mcp_callapproval_{verb}", row.pk), label, spell_invisible(str(row)),
    )  # fmt: skip


def to_decide(actor: Actor) -> Rows:
    """Those about which this person may decide."""
    rows: Rows = CallApproval.objects.decidable_by(actor)
    return rows


def for_superusers(actor: Actor) -> Rows:
    """Those that only a superuser may decide, for superusers."""
    waiting: Rows = CallApproval.objects.waiting().filter(needs_superuser=True)
    return waiting if actor.is_superuser else waiting.none()


def by_decider(rows: Rows, value: str) -> Rows:
    """Of rows that know whose they are to decide about."""
    if value == SUPERUSER:
        return rows.filter(needs_superuser=True, **IS_WAITING)
    return rows.filter(is_mine=True)


@admin.register(CallApproval)
class CallApprovalAdmin(VisibleRowsAdmin):
    title = "Approvals"
    lead = "Calls that wait for a person. Once approved, the agent may make that one call, within 15 minutes."
    template = "admin/mcp/approvals/list.html"
    view_right = "mcp.view_callapproval"
    columns = (
        Column("Call", lambda row: outside(str(row)), str, narrow=True),
        columns.state("State", _words, _state),
        columns.moment("Asked", lambda row: row.asked_at, sort="asked_at"),
        Column("Decide until, or decided", _time, _time),
        columns.plain("Asked times", lambda row: row.attempts),
        Column("Decide", _decide, lambda _row: "", narrow=True),
    )
    filters = (
        Filter("state", "State", by_state, lambda _request: list(STATES.items())),
        Filter("decide", "Who decides", by_decider, lambda _request: [("me", "Me"), (SUPERUSER, "A superuser only")]),
        text_filter("agent", "Agent", "agent_name"),
        text_filter("tool", "Tool", "tool_name"),
    )
    search = ("agent_name__icontains", "tool_name__icontains")
    search_words = "Agent or tool"
    order = ("rank", "-asked_at", "-id")
    presets = (Preset("All"), Preset("Waiting", "state=pending"), Preset("Refused", "state=refused"))
    bulk: tuple[Bulk, ...] = ()
    empty_title = "No call has waited for a person"
    empty_words = "A grant or a tool that needs approval sends each of its calls here first."
    empty_icon = "front_hand"
    api_path = "/api/nhi/approvals"

    def visible(self, request: HttpRequest) -> Rows:
        mine = to_decide(actor_of(request)).filter(pk=OuterRef("pk"))
        rows: Rows = super().visible(request).alias(is_mine=Exists(mine))
        return rows

    def saved_views(self, request: HttpRequest) -> list[tuple[str, str]]:
        actor = actor_of(request)
        mine = [(MINE_WORDS, MINE)] if actor.may("mcp.decide_approval") and not actor.only_reads else []
        return [*mine, *super().saved_views(request)]

    def related(self, rows: Rows) -> Rows:
        """What waits comes first."""
        ranked: Rows = rows.annotate(rank=Case(When(**IS_WAITING, then=Value(0)), default=Value(1)))
        return ranked

    def prepare(self, request: HttpRequest, rows: list[Any]) -> None:
        actor = actor_of(request)
        barred = decisions.why_not_decide_each(actor, rows)
        for row in rows:
            row.is_waiting = row.rank == 0
            row.why_not = barred.get(row.pk, "")

    def row_url(self, row: Any) -> str:
        return link("mcp_callapproval_page", row.pk)

    def pages(self) -> list[URLPattern]:
        return [
            path("<uuid:pk>/", ApprovalPage.as_view(), name="mcp_callapproval_page"),
            path("<uuid:pk>/approve/", decision_dialogs.Approve.as_view(), name="mcp_callapproval_approve"),
            path("<uuid:pk>/refuse/", decision_dialogs.Refuse.as_view(), name="mcp_callapproval_refuse"),
        ]


class Waiting(AttentionItem):
    """Says how long the oldest has waited, too: callers wait for minutes, not for days."""

    def said(self, count: int, actor: Actor) -> str:
        asked = to_decide(actor).order_by("asked_at").values_list("asked_at", flat=True).first()
        oldest = f" · oldest {times.lasts(timezone.now() - asked)}" if asked else ""
        return super().said(count, actor) + oldest


attention_counts.add_items(
    Waiting(
        "approvals_waiting",
        to_decide,
        "{} call waits for approval",
        "{} calls wait for approval",
        "front_hand",
        "mcp_callapproval_changelist",
        MINE,
    ),
    AttentionItem(
        "approvals_for_superusers",
        for_superusers,
        "{} waiting call needs a superuser: nobody else may decide",
        "{} waiting calls need a superuser: nobody else may decide",
        "shield_person",
        "mcp_callapproval_changelist",
        f"decide={SUPERUSER}",
    ),
)
navigation.add_sidebar_items(
    SidebarItem(
        "Access",
        "Approvals",
        "front_hand",
        "mcp_callapproval_changelist",
        lambda request: may(request, "mcp.view_callapproval"),
        badge="approvals_waiting",
        counted=MINE,
    )
)
