"""The list of identities."""

from collections import Counter
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import Count, Q, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.urls import URLPattern, path
from django.utils.html import format_html

from common.console.lists import Bulk, Column, Filter, Preset, choice_filter, text_filter
from common.console.pages import Control, Tab, link
from nhi.admin.identities import access, bulk_dialogs, credentials, forms, tabs
from nhi.admin.identities import state_changes as moves
from nhi.choices import Kind, State
from nhi.console import columns, state_badges
from nhi.console.base import VisibleRowsAdmin
from nhi.console.request_actor import actor_of, may, may_change
from nhi.models import Identity, RoleAssignment, ToolPermission, User
from nhi.templatetags.identities import kind_icon, state_of

UNUSED = timedelta(days=30)
ENDS = (("7", "Within 7 days"), ("30", "Within 30 days"), ("past", "Already ended"))


def _ends(rows: QuerySet[Any], value: str) -> QuerySet[Any]:
    if value == "past":
        return rows.filter(expires_at__lte=Now())
    return rows.filter(expires_at__gt=Now(), expires_at__lte=Now() + timedelta(days=int(value)))


def _unused(rows: QuerySet[Any], _value: str) -> QuerySet[Any]:
    quiet = Q(last_activity_at=None) | Q(last_activity_at__lt=Now() - UNUSED)
    return rows.filter(quiet, state=State.ACTIVE).exclude(kind=Kind.TOOL)


def _owner(rows: QuerySet[Any], value: str) -> QuerySet[Any]:
    return rows.filter(owner__username__iexact=value)


def _owners(request: HttpRequest) -> list[tuple[str, str]]:
    """Mine first; the name of anyone else may be typed into the address."""
    me = actor_of(request).name
    return [(me, "Me")] + [(name, name) for name in _names(request) if name != me]


def _names(request: HttpRequest) -> list[str]:
    seen = User.objects.filter(owned_identities__in=Identity.objects.visible_to(actor_of(request)))
    return list(seen.distinct().order_by("username").values_list("username", flat=True)[:50])


def _tagged(rows: QuerySet[Any], value: str) -> QuerySet[Any]:
    # As text, since SQLite cannot ask whether a list holds a value; a tag has no quotes in it.
    return rows.filter(tags__icontains=f'"{value}"') if '"' not in value else rows.none()


@admin.register(Identity)
class IdentityAdmin(VisibleRowsAdmin):
    title = "Identities"
    view_right = "nhi.view_identity"
    columns = (
        Column("Name", lambda row: format_html("{}{}", kind_icon(row), row.name), str, "name", narrow=True),
        columns.state("State", state_badges.identity, state_of, sort="state"),
        columns.plain("Owner", lambda row: row.owner.username, sort="owner__username"),
        columns.plain("Team", lambda row: row.team, sort="team"),
        columns.plain("Environment", lambda row: row.environment),
        Column("Access", lambda row: row.access_count, lambda row: row.access_count),
        columns.moment("Last active", lambda row: row.last_activity_at, sort="last_activity_at"),
        columns.moment("Ends", lambda row: row.expires_at, sort="expires_at", form="both", missing="does not end"),
    )
    filters = (
        choice_filter("kind", "Kind", "kind", Kind.choices),
        choice_filter("state", "State", "state", State.choices),
        Filter("owner", "Owner", _owner, _owners),
        text_filter("team", "Team", "team__iexact"),
        Filter("tag", "Tag", _tagged),
        text_filter("environment", "Environment", "environment__iexact"),
        Filter("ends", "Ends", _ends, lambda _request: ENDS),
        Filter("unused", "Use", _unused, lambda _request: (("30", "Unused for 30 days"),)),
    )
    search = ("name__icontains", "purpose__icontains", "description__icontains")
    search_words = "Name, purpose or description"
    order = ("name", "id")
    bulk = (
        Bulk("Reassign owner", "nhi_identity_bulk_owner"),
        Bulk("Tag", "nhi_identity_bulk_tag"),
        Bulk("Suspend", "nhi_identity_bulk_suspend", danger=True),
    )
    empty_words = "Agents, service accounts and tools stand here with their owner, their state and what they may reach."
    empty_command = 'curl -X POST …/api/nhi/identities -d \'{"kind": "agent", "name": "deploy-bot", "owner_id": "…"}\''
    empty_icon = "smart_toy"
    api_path = "/api/nhi/identities"

    @property
    def presets(self) -> tuple[Preset, ...]:  # type: ignore[override]  # the words of the kinds are read when asked
        return (
            Preset("All"),
            Preset("Agents", "kind=agent"),
            Preset("Service accounts", "kind=service_account"),
            Preset("Tools", "kind=tool"),
        )

    def _views(self, request: HttpRequest, listing: Any) -> Any:
        known = super()._views(request, listing)
        mine = f"owner={actor_of(request).name}"
        known.insert(4, Tab("Mine", f"?{mine}", current=listing.state == mine))
        return known

    def controls(self, request: HttpRequest) -> list[Control]:
        if not may_change(request, "nhi.add_identity"):
            return []
        kind = request.GET.get("kind", "")
        words = {Kind.TOOL.value: "Add tool", Kind.SERVICE_ACCOUNT.value: "Add service account"}
        query = f"?kind={kind}" if kind in words else ""
        return [Control(words.get(kind, "Add agent"), f"{link('nhi_identity_add')}{query}", "add", dialog=False)]

    def bulk_for(self, request: HttpRequest) -> tuple[Bulk, ...]:
        """For who may change identities, or handles some of these."""
        offered = super().bulk_for(request)
        return offered if may(request, "nhi.move_identity") or self._handles(request) else ()

    def _handles(self, request: HttpRequest) -> bool:
        return Identity.objects.managed_by(actor_of(request)).exists()

    def related(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows.select_related("owner")

    def prepare(self, request: HttpRequest, rows: list[Any]) -> None:
        """What each may reach (agents) or who may reach it (tools), for the rows of one page."""
        ids = [row.pk for row in rows]
        given = ToolPermission.objects.live()
        reach: Counter[Any] = Counter()
        for model, column in ((given, "agent"), (given, "tool"), (RoleAssignment.objects.live(), "identity")):
            counted = model.filter(**{f"{column}__in": ids}).order_by().values_list(column).annotate(n=Count("pk"))
            reach.update(dict(counted))
        for row in rows:
            row.access_count = reach[row.pk]

    def row_url(self, row: Any) -> str:
        return link("nhi_identity_hub", row.pk)

    def pages(self) -> list[URLPattern]:
        return [
            path("add/", forms.Add.as_view(), name="nhi_identity_add"),
            *bulk_dialogs.URLS,
            *tabs.URLS,
            path("<uuid:pk>/change/", forms.Edit.as_view(), name="nhi_identity_change"),
            *moves.URLS,
            *access.URLS,
            *credentials.URLS,
        ]
