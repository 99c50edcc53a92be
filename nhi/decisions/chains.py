"""Who asked whom, from the first who asked to whoever asked the one that acts now, and on whose behalf that is. Pure.

A grant `call` lets the one that is called act with its own rights. A grant `delegate` makes it act on the caller's
behalf: from then on whatever it does must be allowed to the caller as well, and to everybody on whose behalf the caller
acts. These are always the last links above it: a `call` in between begins anew.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from nhi.decisions.types import CallCondition

#: Those who ask one another, the first who asked among them.
MAX_CHAIN_DEPTH = 5
Json = dict[str, Any]


@dataclass(frozen=True)
class ChainLink:
    id: UUID
    name: str

    def as_json(self) -> dict[str, str]:
        return {"id": str(self.id), "name": self.name}


@dataclass(frozen=True)
class DelegationChain:
    """What stands behind one that acts."""

    callers: tuple[ChainLink, ...] = ()
    #: On behalf of how many of the last links it acts.
    principal_count: int = 0
    #: The task that it works on, if it is one.
    task_id: UUID | None = None

    @property
    def principals(self) -> tuple[ChainLink, ...]:
        return self.callers[len(self.callers) - self.principal_count :]

    @property
    def is_bound_to_task(self) -> bool:
        """Whoever acts behind it may not say that it works on something else."""
        return self.task_id is not None or self.principal_count > 0

    def extended(self, caller: ChainLink, *, delegates: bool) -> "DelegationChain":
        """What stands behind the one that `caller`, who acts behind this, asks."""
        return DelegationChain((*self.callers, caller), self.principal_count + 1 if delegates else 0)

    def check_target(self, target: UUID, name: str) -> CallCondition:
        """Whether those who asked may go on to ask this one."""
        if any(link.id == target for link in self.callers):
            said = f"{name} is above this in {self}: it would come round again."
            return CallCondition("chain", False, "chain_cycle", said)
        if len(self.callers) > MAX_CHAIN_DEPTH:
            return CallCondition("chain", False, "chain_depth", f"{self} is as deep as they may ask one another.")
        return CallCondition("chain", True, message=f"{self} does not come round again.")

    def callers_as_json(self) -> list[dict[str, str]]:
        return [link.as_json() for link in self.callers]

    def as_json(self) -> Json:
        task = str(self.task_id) if self.task_id else None
        return {"above": self.callers_as_json(), "behalf": self.principal_count, "task_id": task}

    def __str__(self) -> str:
        return " > ".join(link.name for link in self.callers)


@dataclass(frozen=True)
class TaskFacts:
    """A task as whoever decides about a call within it sees it."""

    holder_id: UUID
    is_open: bool
    #: What stands behind its holder.
    chain: DelegationChain


def chain_from_json(kept: Mapping[str, Any] | None) -> DelegationChain | None:
    if kept is None:
        return None
    task = kept.get("task_id")
    return DelegationChain(links_from_json(kept["above"]), kept["behalf"], UUID(task) if task else None)


def links_from_json(kept: Sequence[Mapping[str, str]]) -> tuple[ChainLink, ...]:
    return tuple(ChainLink(UUID(one["id"]), one["name"]) for one in kept)


def task_to_load(run: DelegationChain | None, named: UUID | None) -> UUID | None:
    """Which task to look up: the one that is named, else the one that the run is for."""
    return named or (run.task_id if run is not None else None)


def resolve_chain(
    run: DelegationChain | None, named: UUID | None, holder_id: UUID, tasks: Mapping[UUID, TaskFacts]
) -> DelegationChain | CallCondition | None:
    """What stands behind one that acts in a run (or in none) and names a task (or none); or why it may not name it.

    A run works on its own task or on none. With another of its agent's tasks it could leave its chain, or act in a task
    that somebody else sent.
    """
    task_id = task_to_load(run, named)
    if task_id is None:
        return run
    if run is not None and run.task_id != task_id:
        return _not_your_task(task_id)
    task = tasks.get(task_id)
    if task is None or task.holder_id != holder_id:
        # The same whether or not there is such a task.
        return _not_your_task(task_id)
    if not task.is_open:
        return CallCondition("chain", False, "task_ended", f"The task {task_id} has ended; nothing is done within it.")
    return task.chain


def _not_your_task(task_id: UUID) -> CallCondition:
    return CallCondition("chain", False, "task_not_yours", f"You work on no task {task_id}.")
