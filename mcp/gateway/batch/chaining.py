"""What stands behind a call: the task or the run that it is made in, and on whose behalf.

Most calls are made in none, and cost nothing here. For the rest of a batch their tasks are looked up together, and then
what all of their principals hold.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from mcp.gateway.batch import database, reading
from mcp.gateway.batch.reading import CallFacts
from mcp.gateway.types import CallRequest
from nhi import hooks
from nhi.decisions import chains, delegation
from nhi.decisions.chains import DelegationChain, TaskFacts
from nhi.decisions.delegation import ChainCheck, Principal
from nhi.decisions.types import CallCondition, DecisionParty, RequestedAction


@dataclass(frozen=True)
class CallChain:
    """What was found behind one call."""

    chain: DelegationChain | None = None
    #: Why it cannot be made in the task that it names.
    refusal: CallCondition | None = None
    #: Those on whose behalf it is made, each with what it holds for the tool.
    principals: tuple[CallFacts, ...] = ()

    def evaluate(
        self, action: RequestedAction, target: DecisionParty | None, *, decision_id: UUID, found: CallFacts
    ) -> ChainCheck | None:
        """What it does to the decision; None for a call that nobody stands behind."""
        if self.refusal is not None:
            return ChainCheck(self.refusal)
        if self.chain is None or target is None:
            return None
        who = [
            _build_principal(link.name, own) for link, own in zip(self.chain.principals, self.principals, strict=True)
        ]
        return delegation.check_principals(who, action, target, decision_id=decision_id, at=found.now)


NO_CHAIN = CallChain()


def load_chains(asked: Sequence[tuple[CallFacts, CallRequest]]) -> list[CallChain]:
    """For each call of a batch, in their order."""
    runs = [_parse_run_chain(found) for found, _ in asked]
    named = [parse_task_id(wish) for _, wish in asked]
    wanted = {chains.task_to_load(run, task) for run, task in zip(runs, named, strict=True)} - {None}
    tasks = hooks.load_tasks([task for task in wanted if task is not None])
    settled = [
        _resolve_chain(found, run, task, tasks) for (found, _), run, task in zip(asked, runs, named, strict=True)
    ]  # fmt: skip
    return _load_principals(asked, settled)


def parse_task_id(wish: CallRequest) -> UUID | None:
    """Whatever spells a UUID names a task here. Anything else is a word of the caller's own, and is kept as one."""
    said = wish.context.task_id
    if not said:
        return None
    try:
        return UUID(said)
    except ValueError:
        return None


def _parse_run_chain(found: CallFacts) -> DelegationChain | None:
    kept = found.row["run_chain"]
    return chains.chain_from_json(reading.parse_json(kept)) if kept is not None else None


def _resolve_chain(found: CallFacts, run: DelegationChain | None, task: UUID | None, tasks: Any) -> CallChain:
    holder = found.read_id("agent_id")
    if (run is None and task is None) or holder is None:
        return NO_CHAIN
    known: dict[UUID, TaskFacts] = tasks
    stands = chains.resolve_chain(run, task, holder, known)
    return CallChain(refusal=stands) if isinstance(stands, CallCondition) else CallChain(stands)


def _load_principals(asked: Sequence[tuple[CallFacts, CallRequest]], settled: list[CallChain]) -> list[CallChain]:
    """One query for all of them, where there are any."""
    wanted = [
        (number, link.id, wish.name)
        for number, ((found, wish), behind) in enumerate(zip(asked, settled, strict=True))
        if behind.chain is not None and found.read_id("tool_id") is not None
        for link in behind.chain.principals
    ]
    if not wanted:
        return settled
    rows = database.load_principals([(identity, name) for _, identity, name in wanted])
    own: dict[int, list[CallFacts]] = {}
    for (number, _, _), row in zip(wanted, rows, strict=True):
        own.setdefault(number, []).append(reading.read_principal_facts(row))
    return [CallChain(one.chain, one.refusal, tuple(own.get(number, ()))) for number, one in enumerate(settled)]


def _build_principal(name: str, own: CallFacts) -> Principal:
    held = (reading.find_grant(own), reading.find_role(own))
    return Principal(name, reading.build_caller(own), tuple(match for match in held if match is not None))
