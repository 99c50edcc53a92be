"""One run: is it running, what does it say, how do I stop it?"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone
from django.utils.functional import cached_property

from common.console import badges
from common.console.badges import Badge
from common.console.pages import Control, Crumb, Tab, link
from common.errors import NotFound
from mcp.admin.calls import run_links
from nhi.choices import State
from nhi.console import state_badges as standing
from nhi.console.base import ActorMixin, ActorPage
from nhi.models import InvocationLog
from supervisor import access, cancelling
from supervisor.admin import agents_cells, executions_cells, executions_place, executions_starters, queue
from supervisor.choices import ExecutionState, Mode
from supervisor.models import Execution, ExecutionTransition, Session

TABS = (
    ("hub", "Output"),
    ("input", "Input"),
    ("calls", "Tool calls"),
    ("resources", "Resources"),
    ("attempts", "Attempts"),
    ("transitions", "Transitions"),
)
#: Characters of an input that every page of its run holds for who wants to copy it.
LONGEST_COPIED = 4000


@dataclass(frozen=True)
class Phase:
    """A stretch of a run between two moves: where it was, and for how long."""

    badge: Badge
    lasted: str
    #: Whole seconds by now, which a page counts on from.
    seconds: int
    now: bool


class OfExecution(ActorMixin):
    """A page or dialog about one run that the person may see."""

    kwargs: dict[str, Any]
    run: Execution

    def check(self) -> None:
        super().check()
        found = self.rows().filter(pk=self.kwargs["pk"]).first()
        if found is None:
            raise NotFound
        self.run = found

    def rows(self) -> QuerySet[Execution]:
        return Execution.objects.visible_to(self.actor).select_related("agent__identity__owner")

    def url(self, page: str) -> str:
        return link(f"supervisor_execution_{page}", self.run.pk)

    def api(self, verb: str = "") -> str:
        path = f"/api/nhi/supervisor/executions/{self.run.pk}"
        return f"{path}/{verb}" if verb else path

    def back(self) -> str:
        return self.url("hub")


class Hub(OfExecution, ActorPage):
    """The frame of every tab: the strip, the phases, one primary action."""

    tab = "hub"

    def rows(self) -> QuerySet[Any]:
        """With how many calls of tools it made and who is behind it, in the same question."""
        calls = InvocationLog.objects.visible_to(self.actor).in_runs([OuterRef("pk")]).order_by()
        counted = calls.values("run_id").annotate(calls=Count("pk")).values("calls")
        return executions_starters.known(super().rows().annotate(calls=Coalesce(Subquery(counted), 0)))

    def context(self) -> dict[str, Any]:
        return {
            "title": f"{self.run}: {dict(TABS)[self.tab]}" if self.tab != "hub" else str(self.run),
            **self.strip(),
            "crumb": Crumb("Executions", link("supervisor_execution_changelist")),
            "tabs": self._tabs(),
            "api": self.api(),
        }

    def strip(self) -> dict[str, Any]:
        """What changes with its state, and is drawn anew when it does."""
        run = self.run
        return {
            "run": run,
            "standing": executions_cells.standing(run),
            "category": executions_cells.said_category(run),
            "started_by": executions_starters.who(run),
            "how": executions_starters.how(run),
            "place": queue.place_of(run) if run.state == ExecutionState.QUEUED else None,
            "queue_url": link("supervisor_queue") if self.actor.may(queue.Queue.actor_may) else "",
            "session_url": self.session_url,
            "task": run_links.task(self.actor, run.task_id),
            "acts_as": self._acts_as(),
            "attempt": executions_cells.attempts(run),
            **executions_place.facts(run),
            "grace": f"{run.cancel_grace:g} s",
            "phases": phases(self.transitions, run),
            "ran": executions_cells.span(self.ran) if self.ran is not None else "",
            "ran_seconds": int(self.ran.total_seconds()) if self.ran is not None else 0,
            "limit": executions_cells.span(timedelta(seconds=run.timeout)),
            "ticks": run.state == ExecutionState.RUNNING,
            "is_done": run.status is not None,
            "started_by_url": self._starter_url(),
            "stream_url": self.api("output"),
            # Each answer to an auditor is on record, so theirs is drawn anew with its state alone.
            "redrawn": not self.actor.only_reads,
            "controls": self._controls(),
            "more": self._more(),
        }

    @cached_property
    def session_url(self) -> str:
        """Where the words of a conversation stand, for who may read them."""
        if self.run.mode != Mode.INTERACTIVE:
            return ""
        seen = Session.objects.visible_to(self.actor).filter(execution=self.run).values_list("pk", flat=True).first()
        return link("supervisor_session_page", seen) if seen else ""

    def _acts_as(self) -> Badge | None:
        """How its identity stands, where that is in its way: its page says who set it and why."""
        identity = self.run.agent.identity
        state = standing.identity(identity)
        return state if identity.pk == self.run.identity_id and state != badges.of(State.ACTIVE) else None

    @cached_property
    def transitions(self) -> list[ExecutionTransition]:
        return list(self.run.transitions.order_by("seq"))

    @cached_property
    def ran(self) -> timedelta | None:
        """Of its current attempt."""
        if self.run.start_time is None:
            return None
        return (self.run.end_time or timezone.now()) - self.run.start_time

    def _starter_url(self) -> str:
        return link("nhi_identity_hub", self.run.started_by_id) if self.run.started_by_kind == "identity" else ""

    def _tabs(self) -> list[Tab]:
        counts = {
            "calls": getattr(self.run, "calls", None),
            "attempts": self.run.retry_count + 1,
            "transitions": self.run.moves,
        }
        return [Tab(label, self.url(name), counts.get(name), name == self.tab) for name, label in TABS]

    def _controls(self) -> list[Control]:
        """Stop while it waits or runs; afterwards run it again."""
        run = self.run
        if run.status is None:
            return [self._stop()] if cancelling.may_cancel(self.actor, run) else []
        return self._again()

    def _stop(self) -> Control:
        who = self.run.cancelled_by_name
        blocked = f"It is being stopped already, as {who} asked." if self.run.cancel_requested_at else ""
        return Control("Stop", self.url("stop"), "stop_circle", danger=True, blocked=blocked)

    def _again(self) -> list[Control]:
        if self.run.mode != Mode.TASK or not access.may_run(self.actor, self.run.agent):
            return []
        blocked = agents_cells.unable(self.run.agent, "Its agent", "Its agent's")
        url = f"{link('supervisor_agent_run', self.run.agent_id)}?like={self.run.pk}"
        return [Control("Run again", url, "replay", dialog=False, blocked=blocked)]

    def _more(self) -> list[Control]:
        copy = [self._copy()] if self.run.input else []
        return [*copy, *(self._again() if self.run.status is None else [])]

    def _copy(self) -> Control:
        """A long one is copied where it stands: no page carries it along for this."""
        label = f"Copy input{' (secrets are masked)' if executions_cells.was_masked(self.run) else ''}"
        if len(self.run.input) > LONGEST_COPIED:
            return Control(label, self.url("input"), "content_copy", dialog=False)
        return Control(label, "", "content_copy", copies=self.run.input)


def phases(moves: list[ExecutionTransition], run: Execution) -> list[Phase]:
    """From each move to the next; after the last of a run that is done nothing goes on."""
    ends: list[datetime | None] = [*(move.at for move in moves[1:]), None]
    found = [_phase(move, end) for move, end in zip(moves, ends, strict=True)]
    return found[:-1] if run.state == ExecutionState.IDLE else found


def _phase(move: ExecutionTransition, end: datetime | None) -> Phase:
    lasted = (end or timezone.now()) - move.at
    badge = badges.find("supervisor.ExecutionState", move.to_state)
    return Phase(badge, executions_cells.span(lasted), int(lasted.total_seconds()), end is None)
