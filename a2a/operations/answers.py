"""What a send or a subscription began, and how it is told to whoever asked for it."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from a2a import showing
from a2a.models import Task
from common.fastsql.compiled_queries import PreparedQuery

_TASK = PreparedQuery(lambda pk: Task.objects.filter(pk=pk).order_by(), pk=UUID)


@dataclass(frozen=True)
class Began:
    """A task that its caller waits for, or follows."""

    task: Task
    caller_id: UUID
    #: Whether the answer waits until there is something to tell.
    waits: bool = False
    history: int | None = None
    #: Tell of it from its first event on; else how it stands comes first.
    from_start: bool = False
    #: A caller who sent a message is not kept where the agent asks something back.
    ends_when_asked: bool = False


def sent(began: Began) -> dict[str, Any]:
    """The answer to a send: the task as it stands, or as it was made for who does not wait."""
    task: Task = _TASK.fetch_first(pk=began.task.pk) if began.waits else began.task
    if task.is_answered and began.waits:
        return {"message": task.status_message}
    if task.first_message is not None:
        return {"task": showing.new(task, history=began.history)}
    return {"task": showing.task(task, history=began.history)}
