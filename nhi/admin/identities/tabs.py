"""The tabs of one identity, each a page with its own queries."""

from collections import Counter
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.urls import path

from common.console import keyset
from common.console.pages import Control
from nhi.access import effective_access, rights, roles
from nhi.admin.identities.hub import Hub
from nhi.choices import Kind, State
from nhi.console import event_sentences
from nhi.decisions import capabilities
from nhi.models import (
    AuditEvent,
    Credential,
    Identity,
    NhiPermission,
    RefusedAuthentication,
    RoleAssignment,
    RoleCapability,
    ToolPermission,
    UserPermission,
)

SHOWN = 100
SOON = timedelta(days=7)


class Overview(Hub):
    tab = "hub"
    template = "nhi/identity/overview.html"

    def context(self) -> dict[str, Any]:
        return {**super().context(), "reach": self._reach(), "attention": self._attention(), "recent": self._recent()}

    def _reach(self) -> list[tuple[str, int]]:
        """What it may call now, by grants and by roles, as tools of each server."""
        if self.identity.kind == Kind.TOOL:
            return []
        servers = Counter(reach.name.partition("__")[0] for reach in effective_access.load(self.identity).tools)
        return sorted(servers.items())

    def _attention(self) -> list[str]:
        """What ends soon, in sentences."""
        said = []
        ends = ToolPermission.objects.visible_to(self.actor).live().filter(
            agent=self.identity, expires_at__lte=Now() + SOON
        )  # fmt: skip
        if grants := ends.count():
            said.append(f"{grants} {'grant ends' if grants == 1 else 'grants end'} within 7 days.")
        tokens = Credential.objects.visible_to(self.actor).live().filter(
            identity=self.identity, expires_at__lte=Now() + SOON, rotated_at=None
        )  # fmt: skip
        if tokens.exists():
            said.append("A credential ends within 7 days and has no successor yet.")
        return said

    def _recent(self) -> list[event_sentences.EventSentence]:
        seen = AuditEvent.objects.visible_to(self.actor).about(self.identity.pk)
        return event_sentences.event_sentences(seen.order_by("-at", "-id")[:5])


class Access(Hub):
    tab = "access"
    template = "nhi/identity/access.html"

    def context(self) -> dict[str, Any]:
        one = self.identity
        calls = one.kind != Kind.TOOL
        held = self._seen(RoleAssignment, Q(identity=one), "role") if calls else []
        return {
            **super().context(),
            "calls": self._seen(ToolPermission, Q(agent=one), "tool") if calls else [],
            "callers": [] if calls else self._seen(ToolPermission, Q(tool=one), "agent"),
            "callees": self._seen(NhiPermission, Q(source=one), "target") if calls else [],
            "called_by": self._seen(NhiPermission, Q(target=one), "source") if calls else [],
            "roles": held,
            "covered": self._covered(held),
            "people": self._seen(UserPermission, Q(nhi=one), "user"),
        }

    def _covered(self, held: list[RoleAssignment]) -> list[tuple[Identity, list[str]]]:
        """The tools that its roles cover, each with the names of those roles."""
        names = {assignment.role_id: assignment.role.name for assignment in held}
        patterns = RoleCapability.objects.effective().filter(role__in=names).values_list("pattern", "role_id")
        by_pattern = [(pattern, names[role_id]) for pattern, role_id in patterns]
        if not by_pattern:
            return []
        tools = (
            roles.covered_tools(pattern for pattern, _ in by_pattern).usable().visible_to(self.actor).order_by("name")
        )
        return [(tool, _through(tool, by_pattern)) for tool in tools[:SHOWN]]

    def _seen(self, model: Any, held: Q, related: str) -> list[Any]:
        rows: QuerySet[Any] = model.objects.visible_to(self.actor).live().filter(held)
        return list(rows.select_related(related).order_by("-created_at")[:SHOWN])


class Credentials(Hub):
    tab = "credentials"
    template = "nhi/identity/credentials.html"

    def context(self) -> dict[str, Any]:
        rows = Credential.objects.visible_to(self.actor).filter(identity=self.identity).order_by("-created_at")[:50]
        shown = list(rows)
        live = sum(row.state == "live" for row in shown)
        barred = rights.why_not_issue(self.actor, self.identity)
        return {
            **super().context(),
            "credentials": shown,
            "credentials_api": self.api("credentials"),
            "handles": not self.actor.only_reads and (self.may_move or self.actor.may("nhi.issue_credential")),
            "issue": Control("Issue credential", self.url("issue"), "key", blocked=barred or self._no_more(live)),
            "barred": barred,
            "two_live": live >= 2,
        }

    def _no_more(self, live: int) -> str:
        if self.identity.state in (State.DEPRECATED, State.ARCHIVED):
            return f"It is {State(self.identity.state).label.lower()}."
        return "Two are live. Revoke one first." if live >= 2 else ""


class Connect(Hub):
    tab = "connect"
    template = "nhi/identity/connect.html"

    def context(self) -> dict[str, Any]:
        own = Credential.objects.visible_to(self.actor).filter(identity=self.identity)
        refused = RefusedAuthentication.objects.filter(public_id__in=own.values("public_id"))
        return {
            **super().context(),
            "gateway": settings.PUBLIC_URL,
            "refusals": [
                {"row": row, "sentence": event_sentences.refusal_sentence(row.reason, self.identity.name)}
                for row in refused.order_by("-minute", "-id")[:10]
            ],
        }


class Changes(Hub):
    tab = "changes"
    template = "nhi/identity/changes.html"

    def context(self) -> dict[str, Any]:
        seen = AuditEvent.objects.visible_to(self.actor).about(self.identity.pk)
        query = self.request.GET
        shown = keyset.page(seen, time="at", before=query.get("before", ""), after=query.get("after", ""))
        sentences_ = event_sentences.event_sentences(shown.rows)
        return {**super().context(), "keyset": shown, "rows": sentences_}


def _through(tool: Identity, by_pattern: list[tuple[str, str]]) -> list[str]:
    """The names of the roles with a pattern that matches the tool."""
    return sorted({name for pattern, name in by_pattern if capabilities.matches(pattern, str(tool.capability))})


URLS = [
    path("<uuid:pk>/", Overview.as_view(), name="nhi_identity_hub"),
    path("<uuid:pk>/access/", Access.as_view(), name="nhi_identity_access"),
    path("<uuid:pk>/credentials/", Credentials.as_view(), name="nhi_identity_credentials"),
    path("<uuid:pk>/connect/", Connect.as_view(), name="nhi_identity_connect"),
    path("<uuid:pk>/changes/", Changes.as_view(), name="nhi_identity_changes"),
]
