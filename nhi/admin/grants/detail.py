"""One grant: what it allows, within which limits, who gave it and why, what became of it."""

import json
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property

from common.console.pages import Control, Crumb, link
from common.errors import NotFound
from nhi.access.grants import PAIR_FIELDS
from nhi.authorization import explain, facts
from nhi.choices import GrantState
from nhi.console import event_sentences
from nhi.console.base import ActorMixin, ActorPage
from nhi.models import AuditEvent, Identity, Role, ToolPermission, UserPermission
from nhi.models.grants import Grant
from nhi.templatetags.grants import grant_url
from nhi.templatetags.identities import grant_limits

EVENTS = 20
LIMITS_NOTHING = (
    "This limit limits nothing: every call passes it. It was taken before limits were checked. Change the limits, or "
    "revoke the grant."
)
#: Where each kind stands over REST.
API = {
    "toolpermission": "/api/nhi/permissions/tools",
    "nhipermission": "/api/nhi/permissions/nhi",
    "userpermission": "/api/nhi/permissions/users",
    "roleassignment": "/api/nhi/role-assignments",
}


class OfGrant(ActorMixin):
    """A page or dialog about one grant that the person may see; `model` says of which kind."""

    model: type[Grant] = ToolPermission
    kwargs: dict[str, Any]

    def check(self) -> None:
        super().check()
        assert self.grant

    @property
    def name(self) -> str:
        return str(self.model._meta.model_name)

    @cached_property
    def grant(self) -> Any:
        found = self._seen().filter(pk=self.kwargs["pk"]).first()
        if found is None:
            raise NotFound
        return found

    def _seen(self) -> QuerySet[Any]:
        return seen(self.model, self.actor)

    def url(self, page: str) -> str:
        return str(grant_url(self.grant, page))

    def back(self) -> str:
        return self.url("page")


def seen(model: type[Grant], actor: Any) -> QuerySet[Any]:
    """What the actor may see of one kind, with the rows that it is between."""
    rows: QuerySet[Any] = model.objects.visible_to(actor)  # type: ignore[attr-defined]  # every kind has this manager
    ends = [name for name in PAIR_FIELDS[str(model._meta.model_name)] if model._meta.get_field(name).is_relation]
    return rows.select_related(*ends)


def sides(grant: Any) -> list[Any]:
    """The two rows that a grant is between."""
    names = PAIR_FIELDS[str(grant._meta.model_name)]
    return [getattr(grant, name) for name in names if grant._meta.get_field(name).is_relation]


def came_from(request: HttpRequest, grant: Any) -> str:
    """`?back=role` in a dialog's address: it was opened on the page of that side of the grant."""
    side = request.GET.get("back", "")
    row = getattr(grant, side) if side in PAIR_FIELDS[str(grant._meta.model_name)] else None
    if isinstance(row, Role):
        return link("nhi_role_hub", row.pk)
    return link("nhi_identity_access", row.pk) if isinstance(row, Identity) else ""


class GrantPage(OfGrant, ActorPage):
    template = "nhi/grants/page.html"

    def context(self) -> dict[str, Any]:
        grant = self.grant
        return {
            "title": str(grant),
            "crumb": Crumb("Grants", link(f"nhi_{self.name}_changelist")),
            "grant": grant,
            "sides": [(label, row, isinstance(row, Identity)) for label, row in self._labelled()],
            "terms": self._terms(),
            "limits": grant_limits(grant),
            "warnings": self._warnings(),
            "schema": _pretty(getattr(grant, "allowed_parameters", None)),
            "events": event_sentences.event_sentences(self._events()),
            "api": f"{API[self.name]}/{grant.pk}",
            **self._buttons(),
        }

    def _warnings(self) -> list[str]:
        """Limits of a live grant that do not hold."""
        grant = self.grant
        if not isinstance(grant, ToolPermission) or grant.state != GrantState.LIVE:
            return []
        found = [LIMITS_NOTHING] if grant.limits_nothing else []
        if grant.allowed_parameters is None and not grant.requires_approval:
            return found
        sides = {grant.agent_id, grant.tool_id}
        if Identity.objects.visible_to(self.actor).filter(pk__in=sides).count() < len(sides):
            return found
        matches = facts.for_question(grant.agent_id, grant.tool_id).facts.matches
        return [*found, *explain.void_limits(matches)]

    def _labelled(self) -> list[tuple[str, Any]]:
        labels = {
            "toolpermission": ("Agent", "Tool"),
            "nhipermission": ("Caller", "Callee"),
            "userpermission": ("Person", "Identity"),
            "roleassignment": ("Identity", "Role"),
        }
        both = sides(self.grant)
        return list(zip(labels[self.name], reversed(both) if self._person_first else both, strict=True))

    @property
    def _person_first(self) -> bool:
        return self.model is UserPermission or self.name == "roleassignment"

    def _terms(self) -> list[tuple[str, Any, str]]:
        """Word, value, vocabulary."""
        found = []
        for name, label, words in (("permission_type", "May", "nhi.PermissionType"), ("level", "May", "nhi.Level")):
            if (value := getattr(self.grant, name, None)) is not None:
                found.append((label, value, words))
        return found

    def _events(self) -> list[AuditEvent]:
        rows = AuditEvent.objects.visible_to(self.actor).about(self.grant.pk)
        return list(rows.order_by("-at", "-id")[:EVENTS])

    def _buttons(self) -> dict[str, Any]:
        """Renew and Revoke while the state allows them, else the reason why not."""
        if self.actor.only_reads:
            return {}
        ended = self.grant.state
        gone = {GrantState.REVOKED: "It was revoked. Give it again.", GrantState.EXPIRED: "It has ended already."}
        adds, revokes = self.actor.may(f"nhi.add_{self.name}"), self.actor.may(f"nhi.revoke_{self.name}")
        renewable = ended == GrantState.LIVE or self.grant.revoked_at is None
        controls = []
        if adds and revokes:
            said = "" if renewable else "It was closed. Give it again."
            controls.append(Control("Renew", self.url("renew"), "update", blocked=said))
        if revokes:
            controls.append(Control("Revoke", self.url("revoke"), "block", danger=True, blocked=gone.get(ended, "")))
        more = [Control("Copy to…", self.url("copy"), "content_copy")] if adds else []
        if adds and revokes and hasattr(self.grant, "max_calls_per_hour"):
            more.insert(0, Control("Change limits", self.url("limits"), "tune", blocked=gone.get(ended, "")))
        return {"controls": controls, "more": more}


def _pretty(value: Any) -> str:
    return "" if value is None else json.dumps(value, indent=2, ensure_ascii=False)


VIEWS: dict[str, tuple[str, Any]] = {"page": ("<uuid:pk>/", GrantPage)}
