"""Who asked whom before: tasks that are sent from within a task go on with its chain, and end where it would close."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from a2a.choices import OPEN
from a2a.models import Task
from common.errors import Conflict, InvalidInput, NotFound
from nhi.actors import Actor
from nhi.credentials import run_tokens
from nhi.credentials.tokens import ParsedBearerToken
from nhi.decisions import delegation
from nhi.decisions.delegation import MAX_CHAIN_DEPTH, ChainLink, TaskFacts
from nhi.decisions.types import ConditionResult
from nhi.models import Identity

__all__ = ["MAX_CHAIN_DEPTH", "Chain", "ChainLink", "known", "of"]

LOOKED_AT = ("id", "agent_id", "state", "chain", "behalf")


@dataclass(frozen=True)
class Chain:
    """From the first who asked to who asks now."""

    #: What stands behind who asks.
    behind: delegation.DelegationChain
    caller: ChainLink
    parent: Task | None = None

    @property
    def links(self) -> tuple[ChainLink, ...]:
        return (*self.behind.callers, self.caller)

    def to(self, target: Identity) -> ConditionResult:
        """What a decision is told of a task for `target` at this chain's end."""
        return self.asks(delegates=False).check_target(target.pk, target.name)

    def asks(self, *, delegates: bool) -> delegation.DelegationChain:
        """What stands behind the one that is asked, by a grant of either type."""
        return self.behind.extended(self.caller, delegates=delegates)

    def deadline(self, asked: datetime | None) -> datetime | None:
        """A task is given no longer than the one that it is a part of."""
        ends = self.parent.deadline if self.parent else None
        if asked is not None and ends is not None and asked > ends:
            raise InvalidInput.for_field(
                "deadline", "The task that this is a part of ends sooner; choose a time before that."
            )
        return asked or ends

    def as_json(self) -> list[dict[str, str]]:
        return [link.as_json() for link in self.links]

    def __str__(self) -> str:
        return " > ".join(link.name for link in self.links)


def of(caller: ChainLink, *, holder_id: UUID, parent_task_id: UUID | None, shown: ParsedBearerToken | None) -> Chain:
    """The chain at whose end `caller` asks: that of the task it works on, if it says so or its run's token does."""
    run = run_tokens.load_chain(shown)
    task_id = delegation.task_to_load(run, parent_task_id)
    parent = Task.objects.filter(pk=task_id).first() if task_id is not None else None
    tasks = {parent.pk: _facts(parent)} if parent is not None else {}
    behind = delegation.resolve_chain(run, parent_task_id, holder_id, tasks)
    if isinstance(behind, ConditionResult):
        if behind.reason == "task_ended":
            raise ended()
        raise NotFound(f"{behind.message} Name an open one that you work on as parent_task_id, or none.")
    return Chain(behind or delegation.DelegationChain(), caller, parent)


def ended() -> Conflict:
    return Conflict("The task that this would be a part of has ended.", details={"reason": "parent_ended"})


def known(ids: Collection[UUID], seen_by: Actor | None) -> Mapping[UUID, TaskFacts]:
    """Tasks as the decisions of lower apps see them; with an actor, those alone that it may see."""
    rows = Task.objects.all() if seen_by is None else Task.objects.visible_to(seen_by)
    return {row.pk: _facts(row) for row in rows.filter(pk__in=list(ids)).only(*LOOKED_AT)}


def _facts(task: Task) -> TaskFacts:
    chain = delegation.DelegationChain(delegation.links_from_json(task.chain), task.behalf, task.pk)
    return TaskFacts(task.agent_id, task.state in OPEN, chain)


def as_kept(chain: delegation.DelegationChain) -> dict[str, Any]:
    """The columns of a task that say what stands behind its agent."""
    return {"chain": chain.callers_as_json(), "behalf": chain.principal_count}
