"""Home: does anything need me? And, before there is anything, what to do first."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists
from django.http import HttpRequest

from common.console.pages import Control, link
from nhi.choices import Kind
from nhi.console import attention_counts, event_sentences
from nhi.console.base import ActorPage
from nhi.models import AuditEvent, Credential, Identity, NhiPermission, RoleAssignment, ToolPermission, User

MINE = 8
RECENT = 8


@dataclass(frozen=True)
class Step:
    """One line of the checklist of a new house."""

    title: str
    words: str
    url: str
    action: str
    done: bool


@dataclass(frozen=True)
class Way:
    """A first step: where it is taken, and how the database tells that it was."""

    title: str
    words: str
    url: Callable[[], str]
    action: str
    taken: Callable[[], Any]


def _add() -> str:
    return link("nhi_identity_add")


def _agents() -> str:
    return f"{link('nhi_identity_changelist')}?kind=agent"


def _access() -> Any:
    return (
        Exists(ToolPermission.objects.live())
        | Exists(NhiPermission.objects.live())
        | Exists(RoleAssignment.objects.live())
    )


_ways: dict[str, tuple[Way, ...]] = {
    "agent": (
        Way(
            "Add an agent", "Who calls: it gets a name, an owner and a purpose.", _add, "Add agent",
            lambda: Exists(Identity.objects.filter(kind="agent")),
        ),
    ),
    "tool": (
        Way(
            "Add a tool", "What is called: a name like github__create_issue.", lambda: f"{_add()}?kind=tool",
            "Add tool", lambda: Exists(Identity.objects.filter(kind="tool")),
        ),
    ),
    "credential": (
        Way(
            "Issue a credential", "What the agent shows. It is shown to you once.", _agents, "Choose an agent",
            lambda: Exists(Credential.objects.filter(identity__isnull=False)),
        ),
    ),
    "access": (
        Way("Give access", "Nothing is allowed until someone allows it.", _agents, "Choose an agent", _access),
    ),
    "call": (
        Way(
            "Make a first call", "The agent's Connect tab has the command.", _agents, "Choose an agent",
            lambda: Exists(Credential.objects.filter(last_used_at__isnull=False, identity__isnull=False)),
        ),
    ),
}  # fmt: skip


def refine(step: str, *ways: Way) -> None:
    """A higher app's steps in place of one of ours, which it knows better."""
    _ways[step] = ways


@dataclass(frozen=True)
class Part:
    """A section of Home that a higher app adds: its template, and what it shows; None where it has nothing to."""

    template: str
    read: Callable[[HttpRequest], dict[str, Any] | None]


_parts: list[Part] = []


def add(*parts: Part) -> None:
    """Each app adds its charts and lists; they stand below the cards, in this order."""
    _parts.extend(parts)


class Home(ActorPage):
    template = "admin/index.html"
    title = "Home"

    def context(self) -> dict[str, Any]:
        waiting = attention_counts.counts_for_request(self.request)
        steps = self._first_steps()
        return {
            "cards": [
                {"need": need, "words": need.said(waiting[need.key], self.actor)}
                for need in attention_counts.all_items()
                if waiting.get(need.key)
            ],
            "steps": steps if steps and not all(step.done for step in steps) else [],
            "first_run": bool(steps) and not steps[0].done,
            "recent": event_sentences.event_sentences(self._recent()),
            "mine": list(self._mine()),
            "reads_only": self.actor.only_reads,
            "parts": self._further(),
            "controls": self._controls(),
        }

    def _further(self) -> list[dict[str, Any]]:
        """Each with its facts under `part`, so that two parts may use the same words."""
        shown = [(part.template, part.read(self.request)) for part in _parts]
        return [{**read, "template": template} for template, read in shown if read is not None]

    def _recent(self) -> list[AuditEvent]:
        seen = AuditEvent.objects.visible_to(self.actor).exclude(
            event__in=("page.opened", "sign_in.succeeded", "sign_out", "run.asked", "task.sent")
        )
        return list(seen.order_by("-at", "-id")[:RECENT])

    def _mine(self) -> Any:
        own = Identity.objects.visible_to(self.actor).filter(owner_id=self.actor.id, kind=Kind.AGENT)
        return own.order_by("name")[:MINE]

    def _controls(self) -> list[Control]:
        if self.actor.only_reads or not self.actor.may("nhi.add_identity"):
            return []
        return [Control("Add agent", link("nhi_identity_add"), "add", dialog=False)]

    def _first_steps(self) -> list[Step]:
        """Only for who can take them; each ticks itself."""
        if not self.actor.may("nhi.add_identity") or self.actor.only_reads:
            return []
        ways = [way for part in _ways.values() for way in part]
        # All in one statement, hung on the person's own row.
        taken = User.objects.filter(pk=self.actor.id).values_list(*(way.taken() for way in ways)).first() or ()
        return [Step(way.title, way.words, way.url(), way.action, done) for way, done in zip(ways, taken, strict=True)]
