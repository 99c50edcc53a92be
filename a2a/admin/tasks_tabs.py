"""The tabs of one task, each a page with its own queries."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.urls import path
from django.utils import timezone

from a2a import showing, tracing
from a2a.admin import tasks_axis, tasks_deliveries, tasks_speakers, tasks_timeline
from a2a.admin.tasks_content import Piece, pieces
from a2a.admin.tasks_filters import list_url
from a2a.admin.tasks_hub import Hub
from a2a.choices import Role, RuntimeKind
from a2a.models import Task, TaskEvent
from common.console import badges, times
from common.console.badges import Badge
from common.console.pages import link
from nhi.actors import Actor
from nhi.console import event_sentences
from nhi.models import NhiPermission

#: Events of a page, messages.
EVENTS, MESSAGES = 50, 50


def grant_of(actor: Actor, task: Task) -> NhiPermission | None:
    """What it was sent by, for who may see that."""
    if task.grant_id is None:
        return None
    return NhiPermission.objects.visible_to(actor).filter(pk=task.grant_id).first()


class Timeline(Hub):
    tab = "hub"
    template = "admin/a2a/tasks/timeline.html"

    def context(self) -> dict[str, Any]:
        before = self._before()
        rows = self.task.events.filter(seq__lt=before) if before else self.task.events.all()
        events = list(reversed(rows.order_by("-seq")[:EVENTS]))
        context = super().context()
        return {
            **context,
            "lines": tasks_timeline.lines(
                events,
                sent_by=tasks_speakers.of_task(self.task),
                answered_by=tasks_speakers.of_events(self.task, events),
                through=self._through(events),
                taken_by=self._taken_by(),
            ),
            "earlier": events[0].seq if events and events[0].seq > 1 else 0,
            "is_end": not before,
            "fresh_url": "" if before else context["fresh_url"],
        }

    def _through(self, events: list[TaskEvent]) -> str:
        """The grant that it was sent by, where its first event is shown."""
        grant = grant_of(self.actor, self.task) if events and events[0].seq == 1 else None
        if grant is None:
            return ""
        now = timezone.now()
        if grant.expires_at is None:
            return f"grant {grant.permission_type}"
        word = "ended" if grant.expires_at <= now else "ends"
        return f"grant {grant.permission_type}, {word} {times.relative(grant.expires_at, now)}"

    def _taken_by(self) -> str:
        if self.task.runtime_kind == RuntimeKind.INBOX:
            return f"claimed by {self.task.agent_name} (inbox)"
        return "" if self.task.runtime_kind == RuntimeKind.REMOTE else "its run began"

    def _before(self) -> int:
        """The event that the page ends before; 0 for one that ends with the last there is."""
        said = self.request.GET.get("before", "")
        return int(said) if said.isdecimal() and len(said) < 10 else 0


@dataclass(frozen=True)
class Said:
    """One message, as the tab shows it."""

    by: Badge
    at: datetime
    pieces: list[Piece]
    #: Of the caller's side, where that is on record.
    name: str = ""


class Content(Hub):
    tab = "content"
    template = "admin/a2a/tasks/content.html"

    def context(self) -> dict[str, Any]:
        made = showing.made(self.task.pk)
        return {
            **super().context(),
            "artifacts": [{"name": _name(one), "pieces": pieces(one["parts"])} for one in made],
            "said": self._said(),
            "most_messages": MESSAGES,
            "allowed_by": self._allowed_by(),
            "request_url": f"{link('nhi_auditevent_changelist')}?request={self.task.request_id}",
        }

    def _said(self) -> list[Said]:
        """The last messages, and after them what its agent says now: that becomes a message when it says more."""
        rows = self.task.messages.order_by("-position").only("task_id", "position", "role", "body", "at")[:MESSAGES]
        messages = list(reversed(rows))
        named = tasks_speakers.of_messages(self.task, messages)
        said = [
            Said(badges.of(Role(one.role)), one.at, pieces(one.body["parts"]), named.get(one.position, ""))
            for one in messages
        ]
        now = self.task.status_message
        return said if now is None else [*said, Said(badges.of(Role.AGENT), self.task.state_at, pieces(now["parts"]))]

    def _allowed_by(self) -> dict[str, Any]:
        """What let it be sent, as it was recorded."""
        if self.task.grant_id is None:
            right = self.task.allowed_by.get("right", "")
            words = "a role that may send tasks to any agent" if right == "a2a.send_task" else right
            return {"words": words}
        grant = grant_of(self.actor, self.task)
        url = link("nhi_nhipermission_page", grant.pk) if grant else ""
        return {"words": "a grant between the two", "url": url, "grant": grant}


def _name(artifact: Any) -> str:
    return str(artifact.get("name") or artifact["artifactId"])


class Trace(Hub):
    tab = "trace"
    template = "admin/a2a/tasks/trace.html"

    def context(self) -> dict[str, Any]:
        task, trace = self.task, tracing.of_task(self.actor, self.task)
        steps = tracing.steps(trace)
        return {
            **super().context(),
            "links": task.chain,
            "on_behalf": [link["name"] for link in task.chain[len(task.chain) - task.behalf :]],
            "rows": tasks_axis.rows(steps, task),
            "headings": tasks_axis.HEADINGS,
            "has_more": len(steps) > 1,
            "truncated": trace.truncated,
            "most": {"tasks": tracing.MOST_TASKS, "runs": tracing.MOST_RUNS, "calls": tracing.MOST_CALLS},
            "parts_url": list_url(parent=str(task.pk)),
            "api": self.api("trace"),
        }


class Changes(Hub):
    tab = "changes"
    template = "admin/a2a/tasks/changes.html"

    def context(self) -> dict[str, Any]:
        return {**super().context(), **event_sentences.changes_page(self.actor, self.task.pk, self.request.GET)}


URLS = [
    path("<uuid:pk>/", Timeline.as_view(), name="a2a_task_hub"),
    path("<uuid:pk>/content/", Content.as_view(), name="a2a_task_content"),
    path("<uuid:pk>/trace/", Trace.as_view(), name="a2a_task_trace"),
    *tasks_deliveries.URLS,
    path("<uuid:pk>/changes/", Changes.as_view(), name="a2a_task_changes"),
]
