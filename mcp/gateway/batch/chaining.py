"""Loads the delegation chains of calls: the task or run of a call, and the principals it is made for.

Most calls have no chain and cost no query. For the other calls of a batch, the tasks are loaded together, and then the
access of all principals in one query.
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
    """The delegation chain of one call."""

    chain: DelegationChain | None = None
    #: Why the call is refused in the task that it names.
    refusal: CallCondition | None = None
    #: Facts of the principals of the chain, each with its own access to the tool.
    principals: tuple[CallFacts, ...] = ()

    def evaluate(
        self, action: RequestedAction, target: DecisionParty | None, *, decision_id: UUID, found: CallFacts
    ) -> ChainCheck | None:
        """Return the effect of the chain on the decision; None for a call without a chain."""
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
    """Load the chain of each call of a batch, in the order of the calls."""
    runs = [_parse_run_chain(found) for found, _ in asked]
    named = [parse_task_id(wish) for _, wish in asked]
    wanted = {chains.task_to_load(run, task) for run, task in zip(runs, named, strict=True)} - {None}
    tasks = hooks.load_tasks([task for task in wanted if task is not None])
    settled = [
        _resolve_chain(found, run, task, tasks) for (found, _), run, task in zip(asked, runs, named, strict=True)
    ]
    return _load_principals(asked, settled)


def parse_task_id(wish: CallRequest) -> UUID | None:
    """Return the task id if the caller's task id is a UUID. Other values are only logged as the caller's own id."""
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
    """Load the principals of all chains in one query; no query when there are none."""
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
