"""What waits for a slot, why, and the workers that would run it."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import F, Q, QuerySet, Window
from django.db.models.functions import RowNumber
from django.utils import timezone

from common.console import badges, navigation
from common.console.badges import Badge
from common.console.pages import Control, link
from nhi.choices import State
from nhi.console import state_badges as standing
from nhi.console.base import ActorPage
from supervisor import access, admission, cancelling
from supervisor.admin import agents, executions_cells, executions_starters
from supervisor.models import Agent, Execution, Runner

MOST = 100
#: Three heartbeats of a runner; one that is silent for longer is given up soon.
LATE = timedelta(seconds=15)
BEHIND = "It waits for those before it."
OLDEST = ("created_at", "id")
PLACE = Window(RowNumber(), partition_by=F("agent_id"), order_by=OLDEST)


@dataclass(frozen=True)
class Waiting:
    """The queue of one agent, the longest waiting first."""

    agent: Agent
    slots: str
    reason: str
    rows: list[dict[str, Any]]
    #: How many more wait than are shown.
    unshown: int


@dataclass(frozen=True)
class Place:
    """Where one run stands in the queue of its agent."""

    number: int
    reason: str
    until: datetime


class Queue(ActorPage):
    template = "admin/supervisor/queue/page.html"
    title = "Queue"
    actor_may = "supervisor.view_execution"

    def context(self) -> dict[str, Any]:
        runners = list(Runner.objects.order_by("host", "pid"))
        waiting = Execution.objects.visible_to(self.actor).queued()
        return {
            "title": self.title,
            "lead": "What waits for a slot, the longest waiting first, and the workers that run it.",
            "queues": self._queues(waiting, runners),
            "waiting": waiting.count(),
            "runners": [_drawn(runner) for runner in runners],
            "overload": admission.overload(),
            "first_step": self._first_step(),
            "used": sum(runner.used for runner in runners),
            "capacity": sum(runner.capacity for runner in runners),
        }

    def _first_step(self) -> Control | None:
        if self.actor.only_reads or not self.actor.may(access.RUN):
            return None
        return Control("Choose an agent to run", link("supervisor_agent_changelist"), "play_arrow", dialog=False)

    def _queues(self, waiting: QuerySet[Execution], runners: list[Runner]) -> list[Waiting]:
        """The first of each queue before the second of any, so that a long one hides no other."""
        rows = waiting.select_related("agent__identity").defer(*executions_cells.NOT_SHOWN).annotate(place=PLACE)
        rows = executions_starters.known(rows)
        shown = list(rows.order_by("place", *OLDEST)[:MOST])
        by_agent: dict[UUID, list[Execution]] = {}
        for run in sorted(shown, key=attrgetter(*OLDEST)):
            by_agent.setdefault(run.agent_id, []).append(run)
        numbers = agents.in_use(list(by_agent))
        # Asked once, however many agents have runs that wait.
        stoppable = cancelling.among(self.actor, shown)
        return [_of(runs, numbers, runners, stoppable) for runs in by_agent.values()]


def _of(
    runs: list[Execution], numbers: dict[UUID, tuple[int, int]], runners: list[Runner], stoppable: set[UUID]
) -> Waiting:
    agent = runs[0].agent
    used, waiting = numbers.get(agent.pk, (0, len(runs)))
    most = agent.max_concurrent_executions
    slots = f"{used} of {most} slots in use" if most else f"{used} under way"
    reason = _why_first(agent, used, runners)
    return Waiting(agent, slots, reason, _rows(runs, reason, stoppable), max(0, waiting - len(runs)))


def _rows(runs: list[Execution], reason: str, stoppable: set[UUID]) -> list[dict[str, Any]]:
    return [
        {
            "place": place,
            "run": run,
            "by": executions_starters.who(run),
            "reason": reason if place == 1 else BEHIND,
            "until": run.wait_until,
            "stop": Control("Stop", link("supervisor_execution_stop", run.pk)) if run.pk in stoppable else None,
        }
        for place, run in enumerate(runs, 1)
    ]


def place_of(run: Execution) -> Place:
    """For the page of one that waits."""
    before = Q(created_at__lt=run.created_at) | Q(created_at=run.created_at, pk__lt=run.pk)
    ahead = Execution.objects.queued().filter(before, agent_id=run.agent_id).count()
    if ahead:
        return Place(ahead + 1, BEHIND, run.wait_until)
    used, _ = agents.in_use([run.agent_id]).get(run.agent_id, (0, 0))
    return Place(1, _why_first(run.agent, used, list(Runner.objects.all())), run.wait_until)


def _why_first(agent: Agent, used: int, runners: list[Runner]) -> str:
    most = agent.max_concurrent_executions
    room = any(runner.used < runner.capacity for runner in runners)
    return why(agent, full=most is not None and used >= most, runners=bool(runners), room=room)


def why(agent: Agent, *, full: bool, runners: bool, room: bool) -> str:
    """What stands between the first of a queue and its start."""
    if not agent.enabled:
        return "Its agent is switched off."
    state = standing.identity(agent.identity)
    if state != badges.of(State.ACTIVE):
        return f"Its identity is {state.label.lower()}."
    if full:
        return "All slots of its agent are in use."
    if not runners:
        return "No worker that runs agents was heard of."
    return "A worker takes it in a moment." if room else "All workers are full."


def _drawn(runner: Runner) -> dict[str, Any]:
    return {
        "runner": runner,
        "badge": heard(runner),
        "share": round(100 * runner.used / runner.capacity) if runner.capacity else 0,
        "memory": f"{runner.memory_percent:.0f} %",
        "disk": f"{runner.disk_free_mb / 1024:,.1f} GiB free",
        "load": f"{runner.load_per_cpu:.1f}",
        "strained": _strained(runner),
    }


def heard(runner: Runner) -> Badge:
    return badges.find("process", "late" if timezone.now() - runner.seen_at > LATE else "up")


def _strained(runner: Runner) -> list[str]:
    """Which of its numbers stand in the way of another run, and the limit of each."""
    limits = (
        (runner.memory_percent > settings.RUN_MAX_MEMORY_PERCENT, f"memory over {settings.RUN_MAX_MEMORY_PERCENT} %"),
        (runner.disk_free_mb < settings.RUN_MIN_DISK_MB, f"less than {settings.RUN_MIN_DISK_MB} MB of disk"),
        (runner.load_per_cpu > settings.RUN_MAX_LOAD, f"load over {settings.RUN_MAX_LOAD} for each processor"),
    )
    return [words for over, words in limits if over]


navigation.add_site_page("runs/queue/", Queue.as_view(), "supervisor_queue")
