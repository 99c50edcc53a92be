"""Who asked whom before: tasks that are sent from within a task go on with its chain, and end where it would close."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from a2a.choices import OPEN
from a2a.models import Task
from common.errors import Conflict, Invalid, NotFound
from nhi.models import Identity
from nhi.terms import Condition
from nhi.tokens import Parsed, ParsedToken
from supervisor.models import Execution

#: Callers, the first who asked among them.
DEEPEST = 5


@dataclass(frozen=True)
class Link:
    id: UUID
    name: str

    def as_json(self) -> dict[str, str]:
        return {"id": str(self.id), "name": self.name}


@dataclass(frozen=True)
class Chain:
    """From the first who asked to who asks now."""

    links: Sequence[Link]
    parent: Task | None = None

    def to(self, target: Identity) -> Condition:
        """What a decision is told of a task for `target` at this chain's end."""
        if any(link.id == target.pk for link in self.links):
            said = f"{target.name} is above this task in {self}: it would come round again."
            return Condition("chain", False, "chain_cycle", said)
        if len(self.links) > DEEPEST:
            said = f"{self} is as deep as tasks may ask for tasks."
            return Condition("chain", False, "chain_depth", said)
        return Condition("chain", True, message=f"{self} does not come round again.")

    def deadline(self, asked: datetime | None) -> datetime | None:
        """A task is given no longer than the one that it is a part of."""
        ends = self.parent.deadline if self.parent else None
        if asked is not None and ends is not None and asked > ends:
            raise Invalid.field("deadline", "The task that this is a part of ends sooner; choose a time before that.")
        return asked or ends

    def as_json(self) -> list[dict[str, str]]:
        return [link.as_json() for link in self.links]

    def __str__(self) -> str:
        return " > ".join(link.name for link in self.links)


def of(caller: Link, *, holder_id: UUID, parent_task_id: UUID | None, shown: Parsed | None) -> Chain:
    """The chain at whose end `caller` asks: that of the task it works on, if it says so or its run's token does."""
    above = parent_task_id or _task_of_run(shown)
    if above is None:
        return Chain([caller])
    parent = Task.objects.filter(pk=above, agent_id=holder_id).first()
    if parent is None:
        raise NotFound
    if parent.state not in OPEN:
        raise Conflict("The task that this would be a part of has ended.", details={"reason": "parent_ended"})
    links = [Link(UUID(link["id"]), link["name"]) for link in parent.chain]
    return Chain([*links, caller], parent)


def _task_of_run(shown: Parsed | None) -> UUID | None:
    if not isinstance(shown, ParsedToken) or shown.execution_id is None:
        return None
    return Execution.objects.filter(pk=shown.execution_id).values_list("task_id", flat=True).first()
