"""The people: who may sign in, with which roles, how well proven, and what they own."""

from typing import Any

from allauth.mfa.models import Authenticator
from django.contrib import admin
from django.db.models import Count, Exists, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.urls import URLPattern
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from common.console import badges
from common.console.badges import Badge
from common.console.lists import Column, Filter, Preset, choice_filter
from common.console.pages import Control, link
from common.templatetags.console import badge
from nhi.admin.people import change, detail
from nhi.console import columns
from nhi.console.base import VisibleRowsAdmin
from nhi.console.console_role_rights import LABELS, role_labels_of
from nhi.console.request_actor import may_change
from nhi.models import Identity, User
from nhi.people import mfa

FACTORS = (("yes", "Has one"), ("no", "Has none"))
HELD = Authenticator.objects.filter(user=OuterRef("pk"), type__in=mfa.FACTOR_TYPES)
OWNED = Identity.objects.filter(owner=OuterRef("pk")).order_by().values("owner").annotate(n=Count("pk")).values("n")


def state(row: Any) -> Badge:
    return badges.find("person", "active" if row.is_active else "deactivated")


def second_factor(row: Any) -> Badge:
    return badges.find("second_factor", "yes" if row.has_factor else "no")


def _roles(row: Any) -> SafeString:
    held = role_labels_of(row)
    if not held:
        return format_html('<span class="gh-subtle">{}</span>', "no console")
    return format_html_join(" ", '<span class="gh-count">{}</span>', ((label,) for label in held))


def _by_role(rows: Any, value: str) -> Any:
    if value == "superuser":
        return rows.filter(is_superuser=True)
    if value == "none":
        return rows.filter(is_superuser=False, groups=None)
    return rows.filter(groups__name=value)


def _by_factor(rows: Any, value: str) -> Any:
    return rows.filter(has_factor=value == "yes")


@admin.register(User)
class PersonAdmin(VisibleRowsAdmin):
    title = "People and roles"
    view_right = "nhi.view_user"
    columns = (
        Column("Name", lambda row: row.username, lambda row: row.username, "username", narrow=True),
        Column("Roles", _roles, lambda row: ", ".join(role_labels_of(row)), narrow=True),
        columns.state("Second factor", second_factor, lambda row: badge(second_factor(row)), narrow=False),
        columns.moment("Last sign-in", lambda row: row.last_login, sort="last_login"),
        Column("Owns", lambda row: row.owned, lambda row: row.owned, "owned"),
        columns.state("State", state, lambda row: badge(state(row)), sort="is_active"),
    )
    filters = (
        Filter(
            "role", "Role", _by_role,
            lambda _request: [*LABELS.items(), ("superuser", "Superuser"), ("none", "No console")],
        ),
        choice_filter("active", "State", "is_active", (("True", "Active"), ("False", "Deactivated"))),
        Filter("factor", "Second factor", _by_factor, lambda _request: FACTORS),
    )  # fmt: skip
    search = ("username__icontains", "email__icontains")
    search_words = "Name or address"
    order = ("-is_active", "username")
    presets = (
        Preset("All"),
        Preset("Active", "active=True"),
        Preset("Without a second factor", "active=True&factor=no"),
        Preset("Deactivated", "active=False"),
    )
    empty_words = "People sign in here and hold roles; a role says what they may do."
    empty_command = ".venv/bin/python manage.py create_person mara --role security-admin"
    empty_icon = "group"
    api_path = "/api/nhi/people"

    def controls(self, request: HttpRequest) -> list[Control]:
        add = Control("Add person", link("nhi_user_add"), "person_add")
        return [add] if may_change(request, "nhi.add_user") else []

    def related(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        facts = {"has_factor": Exists(HELD), "owned": Coalesce(Subquery(OWNED), 0)}
        told: QuerySet[Any] = rows.annotate(**facts).prefetch_related("groups")
        return told

    def row_url(self, row: Any) -> str:
        return link("nhi_user_hub", row.pk)

    def pages(self) -> list[URLPattern]:
        return [*change.URLS, *detail.URLS]
