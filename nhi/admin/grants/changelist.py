"""Grants: three kinds and what roles give, a list each under shared tabs."""

from collections.abc import Sequence
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import URLPattern, path

from common.console.lists import Bulk, Column, Preset, choice_filter
from common.console.pages import Control, Tab, link
from nhi.admin.grants import bulk_dialogs, change, give, give_many
from nhi.admin.grants import columns as cells
from nhi.admin.grants import detail as page
from nhi.choices import Level, PermissionType
from nhi.console import columns, row_by_name_fields
from nhi.console.base import VisibleRowsAdmin
from nhi.console.request_actor import may_change
from nhi.models import NhiPermission, RoleAssignment, ToolPermission, UserPermission

#: The lists that share their tabs.
TABS = (
    ("Agent to tool", "toolpermission"),
    ("Between identities", "nhipermission"),
    ("People", "userpermission"),
    ("Through roles", "roleassignment"),
)


class GrantAdmin(VisibleRowsAdmin):
    """What the lists have in common: newest first, tabs, verbs for one and for several."""

    order = ("-created_at", "-id")
    presets = (
        Preset("All"),
        Preset("Live", "state=live"),
        Preset("Ending soon", "ends=7"),
        Preset("Expired", "state=expired"),
        Preset("Revoked", "state=revoked"),
    )
    empty_icon = "key"
    #: Joins that the names of a row need.
    joined: ClassVar[tuple[str, ...]] = ()
    give_words = "Give access"

    @property
    def _name(self) -> str:
        return str(self.opts.model_name)

    @property
    def bulk(self) -> Sequence[Bulk]:  # type: ignore[override]  # the pages are named for the model
        return (
            Bulk("Renew", f"nhi_{self._name}_bulk_renew"),
            Bulk("Revoke", f"nhi_{self._name}_bulk_revoke", danger=True),
        )

    def bulk_for(self, request: HttpRequest) -> tuple[Bulk, ...]:
        return super().bulk_for(request) if may_change(request, f"nhi.revoke_{self._name}") else ()

    def siblings(self, request: HttpRequest) -> list[Tab]:
        return [Tab(label, link(f"nhi_{name}_changelist"), current=name == self._name) for label, name in TABS]

    def controls(self, request: HttpRequest) -> list[Control]:
        if not may_change(request, f"nhi.add_{self._name}"):
            return []
        return [Control(self.give_words, link(f"nhi_{self._name}_give"), "add")]

    def related(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows.select_related(*self.joined)

    def row_url(self, row: Any) -> str:
        return link(f"nhi_{self._name}_page", row.pk)

    def pages(self) -> list[URLPattern]:
        views = {**page.VIEWS, **change.VIEWS, **bulk_dialogs.VIEWS}
        return [
            path(where, view.as_view(model=self.model), name=f"nhi_{self._name}_{name}")
            for name, (where, view) in views.items()
        ]


@admin.register(ToolPermission)
class ToolPermissionAdmin(GrantAdmin):
    title = "Grants: agent to tool"
    lead = "Which agent may call which tool. What a role covers stands under Through roles."
    view_right = "nhi.view_toolpermission"
    joined = ("agent", "tool")
    columns: Sequence[Column] = (
        cells.pair("Agent and tool", lambda row: row.agent, lambda row: row.tool, sort="agent__name"),
        cells.LIMITS,
        cells.GIVEN,
        cells.GIVEN_AT,
        cells.ENDS,
        columns.moment("Agent last active", lambda row: row.agent.last_activity_at),
        cells.STATE,
    )
    filters = (*cells.common(), cells.server("tool"), cells.VOID_LIMIT)
    search = ("agent__name__icontains", "tool__name__icontains", "reason__icontains", "granted_by_name__icontains")
    search_words = "Agent, tool, reason or giver"
    empty_title = "No agent may call a tool yet"
    empty_words = "A grant lets one agent call one tool, for a while, within limits. Nothing is allowed without one."
    empty_command = (
        "manage.py give_access agent/deploy-bot tool/github__create_issue --days 30 --reason 'Opens release issues'"
    )
    api_path = "/api/nhi/permissions/tools"

    def controls(self, request: HttpRequest) -> list[Control]:
        several = [Control("Give many", link("bulk_grant"), "playlist_add", dialog=False)]
        given = super().controls(request)
        return given + several if given else []

    def pages(self) -> list[URLPattern]:
        return [
            path("give/", give.GiveTool.as_view(), name="nhi_toolpermission_give"),
            *give_many.URLS,
            *row_by_name_fields.URLS,
            path(
                "<uuid:pk>/limits/", change.ChangeToolLimits.as_view(model=self.model), name="nhi_toolpermission_limits"
            ),
            *super().pages(),
        ]


@admin.register(NhiPermission)
class NhiPermissionAdmin(GrantAdmin):
    title = "Grants: between identities"
    lead = "Call lets the other act with its own rights. Delegate makes it act on the caller's behalf."
    view_right = "nhi.view_nhipermission"
    joined = ("source", "target")
    columns: Sequence[Column] = (
        cells.pair("From and to", lambda row: row.source, lambda row: row.target, sort="source__name"),
        cells.worded("May", lambda row: PermissionType(row.permission_type), "permission_type"),
        cells.LIMITS,
        cells.GIVEN,
        cells.GIVEN_AT,
        cells.ENDS,
        columns.moment("Caller last active", lambda row: row.source.last_activity_at),
        cells.STATE,
    )
    filters = (
        *cells.common(),
        choice_filter("may", "May", "permission_type", PermissionType.choices),
        cells.WIDE_ACTIONS,
    )
    search = ("source__name__icontains", "target__name__icontains", "reason__icontains", "granted_by_name__icontains")
    search_words = "Caller, callee, reason or giver"
    empty_title = "No identity may call another yet"
    empty_words = "A grant lets an agent or a service account hand work to another one: by call, or by delegation."
    api_path = "/api/nhi/permissions/nhi"

    def pages(self) -> list[URLPattern]:
        return [
            path("give/", give.GiveNhi.as_view(), name="nhi_nhipermission_give"),
            path("<uuid:pk>/limits/", change.ChangeLimits.as_view(model=self.model), name="nhi_nhipermission_limits"),
            *super().pages(),
        ]


@admin.register(UserPermission)
class UserPermissionAdmin(GrantAdmin):
    title = "Grants: people"
    lead = "Which person may use, manage or administer which identity, beside its owner and its backup owner."
    view_right = "nhi.view_userpermission"
    joined = ("nhi", "user")
    columns: Sequence[Column] = (
        cells.pair("Person and identity", lambda row: row.user, lambda row: row.nhi, sort="user__username"),
        cells.worded("May", lambda row: Level(row.level), "level"),
        cells.GIVEN,
        cells.GIVEN_AT,
        cells.ENDS,
        columns.moment("Last sign-in", lambda row: row.user.last_login),
        cells.STATE,
    )
    filters = (*cells.common(), choice_filter("may", "May", "level", Level.choices))
    search = ("user__username__icontains", "nhi__name__icontains", "reason__icontains", "granted_by_name__icontains")
    search_words = "Person, identity, reason or giver"
    empty_title = "No person was given an identity yet"
    empty_words = "Owners need no grant. Others see and use an identity only while they hold one."
    api_path = "/api/nhi/permissions/users"

    def pages(self) -> list[URLPattern]:
        return [path("give/", give.GiveUser.as_view(), name="nhi_userpermission_give"), *super().pages()]


@admin.register(RoleAssignment)
class RoleAssignmentAdmin(GrantAdmin):
    title = "Grants: through roles"
    lead = "Which identity holds which role: it may call every tool that the role's patterns match, also tools to come."
    view_right = "nhi.view_roleassignment"
    joined = ("identity", "role")
    give_words = "Assign a role"
    columns: Sequence[Column] = (
        cells.pair("Identity and role", lambda row: row.identity, lambda row: row.role, sort="identity__name"),
        cells.GIVEN,
        cells.GIVEN_AT,
        cells.ENDS,
        columns.moment("Identity last active", lambda row: row.identity.last_activity_at),
        cells.STATE,
    )
    filters = (*cells.common(), cells.WIDE_ROLE)
    search = ("identity__name__icontains", "role__name__icontains", "reason__icontains", "granted_by_name__icontains")
    search_words = "Identity, role, reason or giver"
    empty_title = "Nobody holds a role yet"
    empty_words = "A role gives an identity every tool that its patterns match. Assign one on the role's page."
    api_path = "/api/nhi/role-assignments"

    def pages(self) -> list[URLPattern]:
        return [path("give/", give.AssignRole.as_view(), name="nhi_roleassignment_give"), *super().pages()]
