"""One identity: who owns it, may it act, what can it reach, what did it just do?"""

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.urls import path
from django.utils.functional import cached_property

from common.admin import keyset
from common.admin.pages import Control, Crumb, Tab, link
from common.errors import NotFound
from nhi import rights
from nhi.admin import sentences
from nhi.admin.base import Acting, ActingPage
from nhi.choices import TRANSITIONS, Kind, State
from nhi.models import (
    AuditEvent,
    Credential,
    Identity,
    NhiPermission,
    RefusedAuthentication,
    RoleAssignment,
    ToolPermission,
    UserPermission,
)

SHOWN = 100
SOON = timedelta(days=7)


class OfIdentity(Acting):
    """A page or dialog about one identity that the person may see."""

    kwargs: dict[str, Any]

    def check(self) -> None:
        super().check()
        assert self.identity

    @cached_property
    def identity(self) -> Identity:
        seen = Identity.objects.visible_to(self.actor).select_related("owner", "backup_owner")
        found = seen.filter(pk=self.kwargs["pk"]).first()
        if found is None:
            raise NotFound
        return found

    @cached_property
    def may_move(self) -> bool:
        return rights.may_move(self.actor, self.identity)

    @cached_property
    def may_edit(self) -> bool:
        return rights.may_edit(self.actor, self.identity)

    def url(self, page: str) -> str:
        return link(f"nhi_identity_{page}", self.identity.pk)

    def back(self) -> str:
        return self.url("hub")


class Hub(OfIdentity, ActingPage):
    """The frame of every tab: the strip that answers in five seconds, one primary action, tabs as addresses."""

    tab = "hub"

    def context(self) -> dict[str, Any]:
        return {
            "title": f"{self.identity.name}: {self._label}" if self.tab != "hub" else self.identity.name,
            "identity": self.identity,
            "crumb": Crumb("Identities", link("nhi_identity_changelist")),
            "controls": self._controls(),
            "more": self._more(),
            "tabs": self._tabs(),
            "api": f"/api/nhi/identities/{self.identity.pk}",
        }

    @property
    def _label(self) -> str:
        return dict(TABS)[self.tab]

    def _tabs(self) -> list[Tab]:
        shown = [name for name, _ in TABS if self._has(name)]
        counts = self._counts()
        return [Tab(dict(TABS)[name], self.url(name), counts.get(name), name == self.tab) for name in shown]

    def _has(self, tab: str) -> bool:
        calls = self.identity.kind != Kind.TOOL
        return {"credentials": calls, "connect": calls}.get(tab, True)

    def _counts(self) -> dict[str, int]:
        live = (
            ToolPermission.objects.visible_to(self.actor).live()
            .filter(Q(agent=self.identity) | Q(tool=self.identity)).count()
        )  # fmt: skip
        tokens = Credential.objects.visible_to(self.actor).live().filter(identity=self.identity).count()
        return {"access": live, "credentials": tokens}

    def _controls(self) -> list[Control]:
        """What to do now, by state; beside it the stop."""
        if self.actor.only_reads:
            return []
        state, found = State(self.identity.state), []
        if state in (State.INACTIVE, State.SUSPENDED) and self.may_move:
            words = "Activate" if state == State.INACTIVE else "Reactivate"
            found.append(Control(words, self.url("activate"), "play_arrow"))
        elif state == State.ACTIVE and self.identity.kind == Kind.AGENT and self.actor.may("nhi.add_toolpermission"):
            found.append(Control("Give access", self.url("give"), "add"))
        if state == State.ACTIVE and self.may_move:
            found.append(Control("Stop now", self.url("stop"), "stop_circle", danger=True))
        return found

    def _more(self) -> list[Control]:
        if self.actor.only_reads:
            return []
        edit = [Control("Edit", link("nhi_identity_change", self.identity.pk), "edit", dialog=False)]
        copies = self.identity.kind != Kind.TOOL and self.actor.may("nhi.add_toolpermission")
        copy = [Control("Copy access to…", self.url("copy"), "content_copy")] if copies else []
        return (edit if self.may_edit else []) + copy + (self._moves() if self.may_move else [])

    def _moves(self) -> list[Control]:
        """Every move, the illegal ones with the reason; dangerous ones last."""
        return [
            Control(words, self.url(page), icon, danger, self._blocked(to))
            for page, words, icon, danger, to in (
                ("deactivate", "Deactivate", "pause", False, State.INACTIVE),
                ("deprecate", "Deprecate", "history", False, State.DEPRECATED),
                ("archive", "Archive", "inventory_2", True, State.ARCHIVED),
            )
        ]

    def _blocked(self, to: State) -> str:
        state = State(self.identity.state)
        if to in TRANSITIONS[state]:
            return ""
        if to == State.ARCHIVED and state != State.ARCHIVED:
            return "Only what is deprecated can be archived."
        return f"It is {state.label.lower()}."


class Overview(Hub):
    tab = "hub"
    template = "nhi/identity/overview.html"

    def context(self) -> dict[str, Any]:
        return {**super().context(), "reach": self._reach(), "attention": self._attention(), "recent": self._recent()}

    def _reach(self) -> list[tuple[str, int]]:
        """What it may call, by server. Only direct grants: the Access tab adds what roles cover."""
        names = (
            ToolPermission.objects.visible_to(self.actor).live().filter(agent=self.identity)
            .values_list("tool__name", flat=True)[:1000]
        )  # fmt: skip
        servers: dict[str, int] = {}
        for name in names:
            server = name.partition("__")[0]
            servers[server] = servers.get(server, 0) + 1
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

    def _recent(self) -> list[sentences.Sentence]:
        seen = AuditEvent.objects.visible_to(self.actor).about(self.identity.pk)
        return sentences.all_of(seen.order_by("-at", "-id")[:5])


class Access(Hub):
    tab = "access"
    template = "nhi/identity/access.html"

    def context(self) -> dict[str, Any]:
        one = self.identity
        return {
            **super().context(),
            "calls": self._seen(ToolPermission, Q(agent=one), "tool"),
            "callers": self._seen(ToolPermission, Q(tool=one), "agent"),
            "callees": self._seen(NhiPermission, Q(source=one), "target"),
            "called_by": self._seen(NhiPermission, Q(target=one), "source"),
            "roles": self._seen(RoleAssignment, Q(identity=one), "role"),
            "people": self._seen(UserPermission, Q(nhi=one), "user"),
            "revokes": not self.actor.only_reads and self.actor.may("nhi.revoke_toolpermission"),
        }

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
        return {
            **super().context(),
            "credentials": shown,
            "credentials_api": f"/api/nhi/identities/{self.identity.pk}/credentials",
            "handles": not self.actor.only_reads and (self.may_move or self.actor.may("nhi.issue_credential")),
            "issue": Control("Issue credential", self.url("issue"), "key", blocked=self._no_more(live)),
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
                {"row": row, "sentence": sentences.refused(row.reason, self.identity.name)}
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
        sentences_ = sentences.all_of(shown.rows)
        return {**super().context(), "keyset": shown, "rows": sentences_}


TABS = (
    ("hub", "Overview"),
    ("access", "Access"),
    ("credentials", "Credentials"),
    ("connect", "Connect"),
    ("changes", "Changes"),
)
URLS = [
    path("<uuid:pk>/", Overview.as_view(), name="nhi_identity_hub"),
    path("<uuid:pk>/access/", Access.as_view(), name="nhi_identity_access"),
    path("<uuid:pk>/credentials/", Credentials.as_view(), name="nhi_identity_credentials"),
    path("<uuid:pk>/connect/", Connect.as_view(), name="nhi_identity_connect"),
    path("<uuid:pk>/changes/", Changes.as_view(), name="nhi_identity_changes"),
]
