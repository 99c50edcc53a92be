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
        self, action: RequestedAction, target: DecisionParty | None, *, decision_id: UUID, facts: CallFacts
    ) -> ChainCheck | None:
        """Return the effect of the chain on the decision; None for a call without a chain."""
        if self.refusal is not None:
            return ChainCheck(self.refusal)
        if self.chain is None or target is None:
            return None
        principals = [
            _build_principal(link.name, principal_facts)
            for link, principal_facts in zip(self.chain.principals, self.principals, strict=True)
        ]
        return delegation.check_principals(principals, action, target, decision_id=decision_id, at=facts.now)


NO_CHAIN = CallChain()


def load_chains(calls: Sequence[tuple[CallFacts, CallRequest]]) -> list[CallChain]:
    """Load the chain of each call of a batch, in the order of the calls."""
    run_chains = [_parse_run_chain(facts) for facts, _ in calls]
    task_ids = [parse_task_id(request) for _, request in calls]
    ids_to_load = {
        chains.task_to_load(run_chain, task_id) for run_chain, task_id in zip(run_chains, task_ids, strict=True)
    } - {None}
    tasks = hooks.load_tasks([task_id for task_id in ids_to_load if task_id is not None])
    call_chains = [
        _resolve_chain(facts, run_chain, task_id, tasks)
        for (facts, _), run_chain, task_id in zip(calls, run_chains, task_ids, strict=True)
    ]
    return _load_principals(calls, call_chains)


def parse_task_id(request: CallRequest) -> UUID | None:
    """Return the task id if the caller's task id is a UUID. Other values are only logged as the caller's own id."""
    task_id = request.context.task_id
    if not task_id:
        return None
    try:
        return UUID(task_id)
    except ValueError:
        return None


def _parse_run_chain(facts: CallFacts) -> DelegationChain | None:
    value = facts.row["run_chain"]
    return chains.chain_from_json(reading.parse_json(value)) if value is not None else None


def _resolve_chain(facts: CallFacts, run_chain: DelegationChain | None, task_id: UUID | None, tasks: Any) -> CallChain:
    holder = facts.read_id("agent_id")
    if (run_chain is None and task_id is None) or holder is None:
        return NO_CHAIN
    tasks_by_id: dict[UUID, TaskFacts] = tasks
    chain_or_refusal = chains.resolve_chain(run_chain, task_id, holder, tasks_by_id)
    return (
        CallChain(refusal=chain_or_refusal)
        if isinstance(chain_or_refusal, CallCondition)
        else CallChain(chain_or_refusal)
    )


def _load_principals(calls: Sequence[tuple[CallFacts, CallRequest]], call_chains: list[CallChain]) -> list[CallChain]:
    """Load the principals of all chains in one query; no query when there are none."""
    lookups = [
        (number, link.id, request.name)
        for number, ((facts, request), call_chain) in enumerate(zip(calls, call_chains, strict=True))
        if call_chain.chain is not None and facts.read_id("tool_id") is not None
        for link in call_chain.chain.principals
    ]
    if not lookups:
        return call_chains
    rows = database.load_principals([(identity_id, name) for _, identity_id, name in lookups])
    facts_by_number: dict[int, list[CallFacts]] = {}
    for (number, _, _), row in zip(lookups, rows, strict=True):
        facts_by_number.setdefault(number, []).append(reading.read_principal_facts(row))
    return [
        CallChain(call_chain.chain, call_chain.refusal, tuple(facts_by_number.get(number, ())))
        for number, call_chain in enumerate(call_chains)
    ]


def _build_principal(name: str, facts: CallFacts) -> Principal:
    matches = (reading.find_grant(facts), reading.find_role(facts))
    return Principal(name, reading.build_caller(facts), tuple(match for match in matches if match is not None))
