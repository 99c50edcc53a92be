"""Tasks in every standing, made past the API: for tests that only look."""

from typing import Any

from a2a import inbox, parts, runtimes, sending, writer
from a2a.changes import Made, Said, Status
from a2a.choices import Role, TaskState
from a2a.models import Delivery, Task
from a2a.sending import Wish
from nhi import actors
from nhi.actors import SYSTEM
from nhi.models import Identity, User
from supervisor.access import Caller

ASKED = {"document": "minutes.md"}


def caller(name: str) -> Caller:
    return Caller(actors.person(User.objects.get(username=name)))


def said(text: str) -> parts.Message:
    return parts.message(Role.USER, [parts.text(text)])


def sent(to: Identity, *, by: str = "mara", given: dict[str, Any] | None = None, **wished: Any) -> Task:
    """By a person who may, in the name of an identity where `source_agent_id` says so."""
    wish = Wish(sending.of_input(given or ASKED), **{"task_type": "summarise", **wished})
    return sending.send(caller=caller(by), target=to, wish=wish)


def claimed(task: Task, seconds: int = 60) -> str:
    """The token of its lease."""
    return inbox.claim(task=task, lease_seconds=seconds).lease_token


def moved(task: Task, state: TaskState, said: str = "", **more: Any) -> Task:
    message = parts.message(Role.AGENT, [parts.text(said)]) if said else None
    return writer.apply_event(task.pk, Status(state, message, **more))


def made(task: Task, value: Any, name: str = "draft") -> Task:
    return writer.apply_event(task.pk, Made(parts.artifact([parts.data(value)], artifact_id=name, name=name)))


def answered(task: Task, said: str) -> Task:
    return writer.apply_event(task.pk, Said(parts.message(Role.USER, [parts.text(said)])))


def keep(identity: Identity) -> Task:
    """One that a worker holds, and that has said and made something; whatever else runs as the identity."""
    runtimes.choose(actor=SYSTEM, identity=identity, kind="inbox")
    task = sent(identity)
    claimed(task)
    made(task, {"summary": "All agreed."})
    return moved(task, TaskState.INPUT_REQUIRED, "Which of the two?")


def told(to: Identity) -> Delivery:
    """What is to be told of a task that has ended."""
    task = sent(to, callback_url="https://hooks.example.com/done")
    return Delivery.objects.get(task=moved(task, TaskState.REJECTED))
