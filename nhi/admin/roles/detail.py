"""One role: what it covers, who holds it, what waits."""

from dataclasses import dataclass
from typing import Any

from django.core.paginator import Paginator
from django.urls import path
from django.utils.functional import cached_property

from common.console.pages import Control, Crumb, link
from common.errors import NotFound
from nhi.access import roles
from nhi.admin.roles.coverage import Coverage
from nhi.choices import State
from nhi.console import event_sentences
from nhi.console.base import ActorMixin, ActorPage
from nhi.decisions import capabilities
from nhi.models import AuditEvent, Identity, Role, RoleAssignment, RoleCapability

PER_PAGE = 50
#: Tools of an opened pattern; the rest is a number.
OPENED = 200
NAMED = 5
EVENTS = 8


class OfRole(ActorMixin):
    """A page or dialog about one role that the person may see."""

    kwargs: dict[str, Any]

    def check(self) -> None:
        super().check()
        assert self.role

    @cached_property
    def role(self) -> Role:
        found = Role.objects.visible_to(self.actor).filter(pk=self.kwargs["pk"]).first()
        if found is None:
            raise NotFound
        return found

    @cached_property
    def current(self) -> list[RoleCapability]:
        return list(self.role.capabilities.current().order_by("pattern"))

    @property
    def waiting(self) -> RoleCapability | None:
        return next((one for one in self.current if one.approved_at is None), None)

    def url(self, page: str) -> str:
        return link(f"nhi_role_{page}", self.role.pk)

    def api(self, verb: str = "") -> str:
        """Where the role, or a verb on it, stands over REST."""
        return f"/api/nhi/roles/{self.role.pk}{verb}"

    def back(self) -> str:
        return self.url("hub")


@dataclass(frozen=True)
class Line:
    """One pattern of a role: how far it reaches, and the tools themselves once it is opened."""

    capability: RoleCapability
    matched: int
    opened: bool
    tools: list[Identity]

    @property
    def wide(self) -> bool:
        return capabilities.is_wide(self.capability.pattern)

    @property
    def more(self) -> int:
        return max(0, self.matched - len(self.tools)) if self.opened else 0


class RolePage(OfRole, ActorPage):
    template = "nhi/role/page.html"

    def context(self) -> dict[str, Any]:
        coverage = Coverage(self.actor)
        effective = [one.pattern for one in self.current if one.approved_at is not None]
        held = self._held()
        return {
            "title": self.role.name,
            "role": self.role,
            "crumb": Crumb("Roles", link("nhi_role_changelist")),
            "lines": [self._line(one, coverage) for one in self.current],
            "matched": coverage.count(effective),
            "known": coverage.total,
            "held": held,
            "page": held,
            "waiting": self.waiting,
            "own_request": self._own_request(),
            "events": event_sentences.event_sentences(self._events()),
            "api": self.api(),
            "revokes": self._may("revoke_roleassignment"),
            **self._buttons(),
        }

    def _may(self, right: str) -> bool:
        return self.actor.may(f"nhi.{right}") and not self.actor.only_reads

    def _line(self, one: RoleCapability, coverage: Coverage) -> Line:
        opened = self.request.GET.get("open") == one.pattern
        tools = Identity.objects.visible_to(self.actor).covered_by(one.pattern).exclude(state=State.ARCHIVED)
        shown = list(tools.order_by("name")[:OPENED]) if opened else []
        return Line(one, coverage.count([one.pattern]), opened, shown)

    def _held(self) -> Any:
        rows = RoleAssignment.objects.visible_to(self.actor).live().filter(role=self.role)
        newest = rows.select_related("identity").order_by("-created_at", "-id")
        return Paginator(newest, PER_PAGE).get_page(self.request.GET.get("page"))

    def _own_request(self) -> str:
        """Said to who asked: that it is not theirs to approve, and whose it is."""
        if self.waiting is None or not self._may("change_role") or self.actor.id != self.waiting.added_by_id:
            return ""
        return own_request(self.waiting)

    def _events(self) -> list[AuditEvent]:
        rows = AuditEvent.objects.visible_to(self.actor).about(self.role.pk)
        return list(rows.order_by("-at", "-id")[:EVENTS])

    def _buttons(self) -> dict[str, Any]:
        controls = []
        if self.waiting is not None and self._may("change_role") and not self._own_request():
            controls.append(Control("Approve *.*", link("nhi_role_approve", self.role.pk, self.waiting.pk), "verified"))
        if self._may("add_roleassignment"):
            controls.append(
                Control("Assign", f"{link('nhi_roleassignment_give')}?role={self.role.pk}&back=role", "add")
            )
        if self._may("change_role"):
            controls.append(Control("Change patterns", self.url("change"), "edit"))
        return {"controls": controls}


def own_request(capability: RoleCapability) -> str:
    """`You asked for this, so someone else must approve. 3 people can: …`"""
    able = [str(person) for person in roles.approvers(capability)]
    said = "You asked for this, so someone else must approve."
    if not able:
        return f"{said} Nobody else can yet: make another person a security admin."
    names = ", ".join(able[:NAMED]) + (f" and {len(able) - NAMED} more" if len(able) > NAMED else "")
    return f"{said} {len(able)} {'person' if len(able) == 1 else 'people'} can: {names}."


URLS = [path("<uuid:pk>/", RolePage.as_view(), name="nhi_role_hub")]
