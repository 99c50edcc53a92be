"""The list of roles."""

from collections import Counter
from typing import Any

from django.contrib import admin
from django.db.models import Count, Exists, OuterRef, QuerySet
from django.http import HttpRequest
from django.urls import URLPattern
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from common.console import badges
from common.console.badges import Badge
from common.console.lists import Column, Filter, Preset
from common.console.pages import Control, link
from common.templatetags.console import badge
from nhi.admin.roles import change, detail
from nhi.admin.roles.coverage import Coverage
from nhi.console import columns
from nhi.console.base import VisibleRowsAdmin
from nhi.console.request_actor import actor_of, may_change
from nhi.models import Role, RoleAssignment, RoleCapability

SHOWN = 4


def _patterns(row: Any) -> SafeString:
    shown = format_html_join(" ", "<code>{}</code>", ((pattern,) for pattern in row.patterns[:SHOWN]))
    more = len(row.patterns) - SHOWN
    return format_html('{} <span class="gh-subtle">{}</span>', shown, f"and {more} more" if more > 0 else "")


def _matches(row: Any) -> str:
    return f"{row.matched} of {row.known} tools"


def state_of(waiting: int, assigned: int) -> Badge | None:
    if waiting:
        return badges.find("nhi.GrantState", "pending").saying("*.* waits")
    return None if assigned else badges.find("nhi.GrantState", "unused").saying("Nobody holds it")


def _state(row: Any) -> SafeString:
    found = state_of(row.waiting, row.assigned)
    return SafeString(badge(found)) if found else SafeString("")


def _state_text(row: Any) -> str:
    found = state_of(row.waiting, row.assigned)
    return found.label if found else ""


def _having(**of: Any) -> Any:
    return Exists(RoleCapability.objects.current().filter(role=OuterRef("pk"), **of))


def _held() -> Any:
    return Exists(RoleAssignment.objects.live().filter(role=OuterRef("pk")))


@admin.register(Role)
class RoleAdmin(VisibleRowsAdmin):
    title = "Roles"
    lead = "Capability patterns under a name. Who holds the role may call every tool that they match."
    view_right = "nhi.view_role"
    columns = (
        Column("Role", str, str, "name", narrow=True),
        Column("Patterns", _patterns, lambda row: " ".join(row.patterns)),
        Column("Matches", _matches, _matches, narrow=True),
        Column("Assigned to", lambda row: row.assigned, lambda row: row.assigned),
        columns.plain("Added by", lambda row: row.created_by_name, sort="created_by_name"),
        columns.moment("Added", lambda row: row.created_at, sort="created_at"),
        Column("State", _state, _state_text, narrow=True),
    )
    filters = (
        Filter("pattern", "Pattern", lambda rows, value: rows.filter(_having(pattern__icontains=value))),
        Filter(
            "wide", "Has *", lambda rows, _value: rows.filter(_having(prefix__isnull=False)),
            lambda _: (("yes", "A pattern with *"),),
        ),
        Filter(
            "waiting", "Waiting", lambda rows, _value: rows.filter(_having(approved_at=None)),
            lambda _: (("yes", "A *.* waits"),),
        ),
        Filter(
            "held", "Held", lambda rows, value: rows.filter(_held() if value == "yes" else ~_held()),
            lambda _: (("yes", "By someone"), ("no", "By nobody")),
        ),
    )  # fmt: skip
    search = ("name__icontains", "description__icontains")
    search_words = "Name or description"
    order = ("name", "id")
    presets = (Preset("All"), Preset("Waiting for approval", "waiting=yes"), Preset("Held by nobody", "held=no"))
    empty_title = "No role yet"
    empty_words = (
        "A role is a name for patterns like github.read or github.commits.*. Assign it to whoever does that work."
    )
    empty_command = 'curl -X POST …/api/nhi/roles -d \'{"name": "reader", "capabilities": ["github.commits.*"]}\''
    empty_icon = "badge"
    api_path = "/api/nhi/roles"

    def controls(self, request: HttpRequest) -> list[Control]:
        return [Control("Add role", link("nhi_role_add"), "add")] if may_change(request, "nhi.add_role") else []

    def related(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows.prefetch_related("capabilities")

    def prepare(self, request: HttpRequest, rows: list[Any]) -> None:
        """What each matches and who holds it, in one query each for the whole page."""
        held = RoleAssignment.objects.visible_to(actor_of(request)).live().filter(role__in=rows)
        assigned = Counter(dict(held.order_by().values_list("role").annotate(count=Count("pk"))))
        coverage = Coverage(actor_of(request))
        for row in rows:
            current = [one for one in row.capabilities.all() if one.removed_at is None]
            row.patterns = [one.pattern for one in current]
            row.waiting = sum(one.approved_at is None for one in current)
            row.matched = coverage.count(one.pattern for one in current if one.approved_at is not None)
            row.known, row.assigned = coverage.total, assigned[row.pk]

    def row_url(self, row: Any) -> str:
        return link("nhi_role_hub", row.pk)

    def pages(self) -> list[URLPattern]:
        return [*change.URLS, *detail.URLS]
