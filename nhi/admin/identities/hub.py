"""One identity: who owns it, may it act, what can it reach, what did it just do?"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db.models import Q
from django.utils.functional import cached_property

from common.console.pages import Control, Crumb, Tab, link
from common.errors import NotAllowed, NotFound
from nhi.access import rights
from nhi.actors import Actor
from nhi.choices import TRANSITIONS, Kind, State
from nhi.console.base import ActorMixin, ActorPage
from nhi.models import Credential, Identity, NhiPermission, RoleAssignment, ToolPermission

TABS = (
    ("hub", "Overview"),
    ("access", "Access"),
    ("credentials", "Credentials"),
    ("connect", "Connect"),
    ("changes", "Changes"),
)


@dataclass(frozen=True)
class Beside:
    """A page of a higher app about the same thing: what it tells, and where it stands."""

    label: str
    said: str
    url: str


_beside: list[Callable[[Identity], Beside | None]] = []


def add_beside(read: Callable[[Identity], Beside | None]) -> None:
    """A higher app that knows more of an identity leads there from its strip."""
    _beside.append(read)


@dataclass(frozen=True)
class Added:
    """A tab of a higher app, at the address `nhi_identity_<name>`; it stands before the changes."""

    name: str
    label: str
    #: Of which identities it tells something.
    kinds: frozenset[Kind] = frozenset(Kind)
    #: What has a higher one stands behind the others.
    place: int = 0


@dataclass(frozen=True)
class Part:
    """A section of a higher app in one of our tabs: its template, and what it shows of an identity."""

    tab: str
    template: str
    read: Callable[[Actor, Identity], dict[str, Any]]


_added: list[Added] = []
_parts: list[Part] = []


def add_tab(added: Added) -> None:
    _added.append(added)


def add_part(part: Part) -> None:
    _parts.append(part)


def _tabs() -> dict[str, str]:
    """Every tab's label, in their order."""
    *ours, changes = TABS
    return dict([*ours, *((added.name, added.label) for added in sorted(_added, key=lambda one: one.place)), changes])


class OfIdentity(ActorMixin):
    """A page or dialog about one identity that the person may see."""

    kwargs: dict[str, Any]
    identity: Identity

    def check(self) -> None:
        super().check()
        self.identity = self._find()

    def _find(self) -> Identity:
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

    def api(self, verb: str = "") -> str:
        """Where the identity, or a verb on it, stands over REST."""
        path = f"/api/nhi/identities/{self.identity.pk}"
        return f"{path}/{verb}" if verb else path

    def url(self, page: str) -> str:
        return link(f"nhi_identity_{page}", self.identity.pk)

    def back(self) -> str:
        return self.url("hub")


#: Tabs about what an identity proves itself with.
OF_CALLERS = frozenset({"credentials", "connect"})


class Hub(OfIdentity, ActorPage):
    """The frame of every tab: the strip that answers in five seconds, one primary action, tabs as addresses."""

    tab = "hub"

    def check(self) -> None:
        super().check()
        if not self._has(self.tab):
            raise NotAllowed(f"You may not see the credentials of {self.identity.name}.")

    def context(self) -> dict[str, Any]:
        return {
            "title": f"{self.identity.name}: {self._label}" if self.tab != "hub" else self.identity.name,
            "identity": self.identity,
            "crumb": Crumb("Identities", link("nhi_identity_changelist")),
            "controls": self._controls(),
            "more": self._more(),
            "tabs": self._tabs(),
            "api": self.api(),
            "parts": self._further(),
            "beside": [found for read in _beside if (found := read(self.identity)) is not None],
        }

    def _further(self) -> list[dict[str, Any]]:
        own = [part for part in _parts if part.tab == self.tab]
        return [{**part.read(self.actor, self.identity), "template": part.template} for part in own]

    @property
    def _label(self) -> str:
        return _tabs()[self.tab]

    def _tabs(self) -> list[Tab]:
        shown = [(name, label) for name, label in _tabs().items() if self._has(name)]
        counts = self._counts()
        return [Tab(label, self.url(name), counts.get(name), name == self.tab) for name, label in shown]

    def _has(self, tab: str) -> bool:
        if any(added.name == tab and self.identity.kind not in added.kinds for added in _added):
            return False
        return tab not in OF_CALLERS or (self.identity.kind != Kind.TOOL and self.sees_credentials)

    @cached_property
    def sees_credentials(self) -> bool:
        """Else an empty list of them would read as if there were none."""
        return self.actor.may("nhi.view_credential") or self.may_move

    def _counts(self) -> dict[str, int]:
        actor, about = self.actor, self.identity
        access = (
            ToolPermission.objects.visible_to(actor).live().filter(Q(agent=about) | Q(tool=about)),
            NhiPermission.objects.visible_to(actor).live().filter(Q(source=about) | Q(target=about)),
            RoleAssignment.objects.visible_to(actor).live().filter(identity=about),
        )
        first, *others = (rows.order_by().values("pk") for rows in access)
        # All of them by one statement, as each tab of the page has it.
        counts = {"access": first.union(*others, all=True).count()}
        if self.sees_credentials:
            counts["credentials"] = Credential.objects.visible_to(actor).live().filter(identity=about).count()
        return counts

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
