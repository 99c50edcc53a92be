"""The part of tasks in the demo: a plan that waits for its caller, and two parts of it, of which one is done; and where
agents run, one that asks another."""

from typing import Any

from a2a import inbox, parts, runtimes, sending, writer
from a2a.changes import Status
from a2a.choices import Role, RuntimeKind, TaskState
from a2a.models import Task
from a2a.sending import Wish
from nhi import actors
from nhi.choices import Kind
from nhi.models import Identity, User
from supervisor.access import Caller
from supervisor.models import Agent

#: Agents of the supervisor's part: one asks, and the other is asked.
BRIEFING, READER = "briefing", "summarise"
NOTES = "Release 2.4: searching is twice as fast, and exports keep their filters."


def seed() -> None:
    """Make it where there is no task yet; a second time changes nothing."""
    named = {one.name: one for one in Identity.objects.filter(kind=Kind.AGENT, name__in=("planner", "writer"))}
    if Task.objects.exists() or len(named) < 2:
        return
    planner, writes = named["planner"], named["writer"]
    if runtimes.of(planner).kind != RuntimeKind.INBOX:
        runtimes.choose(actor=_mara().actor, identity=planner, kind=RuntimeKind.INBOX)
    plan = _sent(planner, "plan", {"goal": "Announce release 2.4"})
    inbox.claim(task=plan, lease_seconds=60)
    draft = _sent(writes, "draft", {"about": "release 2.4"}, source=planner, parent=plan)
    _done(draft)
    _sent(writes, "translate", {"text": NOTES, "into": "German"}, source=planner, parent=plan)
    asked = parts.message(Role.AGENT, [parts.text("The draft is done. Who is it for: customers, or the team?")])
    writer.apply_event(plan.pk, Status(TaskState.INPUT_REQUIRED, asked))
    _brief()


def reader() -> Identity | None:
    """Whom the demo's token may send a task to; None where no agent runs."""
    found = Agent.objects.enabled().filter(name=READER).select_related("identity").first()
    return found.identity if found else None


def _brief() -> None:
    """A run that sends a task, which becomes a run of another agent."""
    briefing = Agent.objects.select_related("identity").filter(name=BRIEFING).first()
    if briefing is not None:
        runtimes.choose(actor=_mara().actor, identity=briefing.identity, kind=RuntimeKind.CLI, agent=briefing)
        _sent(briefing.identity, "brief", {"input": NOTES})


def _sent(
    to: Identity, task_type: str, given: dict[str, Any], *, source: Identity | None = None, parent: Task | None = None
) -> Task:
    """By mara, who may send in the name of others; what they may themselves is decided all the same."""
    wish = Wish(
        message=sending.of_input(given),
        task_type=task_type,
        source_agent_id=source.pk if source else None,
        parent_task_id=parent.pk if parent else None,
    )
    return sending.send(caller=_mara(), target=to, wish=wish)


def _mara() -> Caller:
    return Caller(actors.person(User.objects.get(username="mara")))


def _done(task: Task) -> None:
    """As a worker of its agent does it."""
    token = inbox.claim(task=task, lease_seconds=60).lease_token
    inbox.progress(task=task, lease_token=token, message="Reading what was merged")
    inbox.complete(task=task, lease_token=token, result={"notes": NOTES})
