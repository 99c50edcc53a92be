"""One task: where is it stuck, who asked whom?"""

from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.functional import cached_property

from a2a import cancelling, inbox, sending, waiting
from a2a.admin import tasks_cells, tasks_more
from a2a.choices import RUN_HERE, RuntimeKind, TaskState
from a2a.models import Delivery, Task
from common.console import times
from common.console.pages import PART, Control, Crumb, Tab, link, wants_part
from common.errors import NotFound
from mcp.models import CallApproval
from nhi.console.base import ActorMixin, ActorPage
from supervisor.admin import executions_cells
from supervisor.models import Execution

TABS = (
    ("hub", "Timeline"),
    ("content", "Input and result"),
    ("trace", "Chain"),
    ("deliveries", "Deliveries"),
    ("changes", "Changes"),
)


class OfTask(ActorMixin):
    """A page or dialog about one task that the person may see."""

    kwargs: dict[str, Any]
    task: Task

    def check(self) -> None:
        super().check()
        seen = Task.objects.visible_to(self.actor).select_related("source", "parent")
        found = seen.filter(pk=self.kwargs["pk"]).first()
        if found is None:
            raise NotFound
        self.task = found

    def url(self, page: str) -> str:
        return link(f"a2a_task_{page}", self.task.pk)

    def api(self, verb: str = "") -> str:
        path = f"/api/nhi/a2a/tasks/{self.task.pk}"
        return f"{path}/{verb}" if verb else path

    def back(self) -> str:
        return self.url("hub")


class Hub(OfTask, ActorPage):
    """The frame of every tab: the strip that says where it stands, one primary action."""

    tab = "hub"

    def get(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:
        """An open page asks again and again, and is told only what it has not seen."""
        unchanged = wants_part(request) and request.GET.get("seen") == self.seen
        return HttpResponse(status=204, headers={PART: "1"}) if unchanged else self.page()

    @property
    def goes_on(self) -> bool:
        """Whether what the tab shows may yet change."""
        return self.task.is_open

    @property
    def seen(self) -> str:
        """One word for the task as it stands now: a lease is moved on without an event."""
        lease = self.task.lease_until
        return f"{self.task.last_seq}-{int(lease.timestamp()) if lease else 0}-{int(self._is_lost)}"

    def context(self) -> dict[str, Any]:
        task = self.task
        return {
            "title": f"{task.short_id}: {dict(TABS)[self.tab]}"
            if self.tab != "hub"
            else f"Task {task.short_id} for {task.agent_name}",
            "task": task,
            "standing": tasks_cells.standing(task),
            "took": tasks_cells.took(task),
            "stuck": self._stuck(),
            "approval": self._approval(),
            "from_name": tasks_cells.asked_by(task),
            "parent": self._parent(),
            "run": self._run(task.execution_id),
            "sent_by_run": self._run(task.sent_by_run_id),
            "leased": task.state == TaskState.WORKING and task.lease_until is not None and not self._is_lost,
            "most_claims": inbox.MOST_CLAIMS,
            "seen": self.seen,
            # Each answer to an auditor is on record, so theirs stays as it was drawn.
            "fresh_url": self.url(self.tab) if self.goes_on and not self.actor.only_reads else "",
            "crumb": Crumb("Tasks", link("a2a_task_changelist")),
            "controls": self._controls(),
            "more": tasks_more.controls(self.actor, task, told=self.told),
            "tabs": [Tab(label, self.url(name), self._counts().get(name), name == self.tab) for name, label in TABS],
            "api": self.api(),
        }

    @cached_property
    def told(self) -> int:
        """How many deliveries of it the person may see; nothing is told where nobody asked for it."""
        if not self.task.pushes and (self.task.is_open or not self.task.callback_url):
            return 0
        return Delivery.objects.visible_to(self.actor).filter(task_id=self.task.pk).count()

    def _counts(self) -> dict[str, int]:
        return {"deliveries": self.told} if self.told else {}

    @property
    def _is_lost(self) -> bool:
        """Whether its worker was not heard of for a whole lease."""
        return self.task.lease_until is not None and self.task.lease_until < timezone.now()

    def _stuck(self) -> str:
        """Whom it waits for, while it is open."""
        task, asked = self.task, tasks_cells.asked_by(self.task)
        return {
            TaskState.SUBMITTED: self._not_begun(),
            TaskState.WORKING: self._at_work(),
            TaskState.INPUT_REQUIRED: f"It waits for {asked} to say more.",
            TaskState.AUTH_REQUIRED: f"It waits until {asked} has signed in where it asks for that."
            if self.awaited is None
            else f"A call of {self.awaited.tool_name} by {self.awaited.agent_name} waits for a person's approval.",
        }.get(TaskState(task.state), "")

    def _not_begun(self) -> str:
        if self.task.runtime_kind == RuntimeKind.INBOX:
            return f"No worker of {self.task.agent_name} has taken it yet."
        if self.task.runtime_kind == RuntimeKind.REMOTE:
            return f"The server of {self.task.agent_name} has not said yet that it works on it."
        return self._in_queue()

    def _in_queue(self) -> str:
        return "Its run waits for a place." if self.task.execution_id else "It waits for a place in the queue of runs."

    @cached_property
    def awaited(self) -> CallApproval | None:
        return waiting.of(self.task) if self.task.state == TaskState.AUTH_REQUIRED else None

    def _approval(self) -> str:
        """Where somebody decides about the call that it waits for, for who may look at it."""
        if self.awaited is None or not CallApproval.objects.visible_to(self.actor).filter(pk=self.awaited.pk).exists():
            return ""
        return link("mcp_callapproval_page", self.awaited.pk)

    def _at_work(self) -> str:
        if self.task.runtime_kind in RUN_HERE and self.task.execution_id is None:
            return f"It was answered. {self._in_queue()}"
        until: datetime | None = self.task.lease_until
        if until is None:
            inbox_of = self.task.agent_name if self.task.runtime_kind == RuntimeKind.INBOX else ""
            return (
                f"It was answered, and waits in the inbox: no worker of {inbox_of} has taken it up." if inbox_of else ""
            )
        name, at = self.task.agent_name, times.absolute(until, timezone.now())
        if not self._is_lost:
            return f"A worker of {name} has it."
        if self.task.claims >= inbox.MOST_CLAIMS:
            return (
                f"Its worker was not heard of since {at}, the last of {inbox.MOST_CLAIMS}: it is given up in a moment."
            )
        return f"Its worker was not heard of since {at}: {name} is offered it again."

    def _parent(self) -> Task | None:
        """Where the person sees it too: of another's task its id would be all there is to tell."""
        above: Task | None = self.task.parent
        if above is None or self.actor.may("a2a.view_task"):
            return above
        return above if Task.objects.visible_to(self.actor).filter(pk=above.pk).exists() else None

    def _run(self, pk: UUID | None) -> Execution | None:
        """Where the person sees runs."""
        return Execution.objects.visible_to(self.actor).filter(pk=pk).first() if pk else None

    @cached_property
    def may_cancel(self) -> bool:
        return self.task.is_open and cancelling.may_cancel(self.actor, self.task)

    def _controls(self) -> list[Control]:
        """First what it waits for; its end beside that."""
        reply = [Control("Reply", self.url("reply"), "reply")] if self._may_reply() else []
        return [*reply, Control("Cancel", self.url("cancel"), "cancel", danger=True)] if self.may_cancel else reply

    def _may_reply(self) -> bool:
        asks = self.task.state in sending.WAITING and self.awaited is None
        return asks and sending.may_say(self.actor, self.task)


def span(since: datetime, until: datetime) -> str:
    return executions_cells.span(until - since)
