"""Runs that agents ask for: who asked whom, and on whose behalf what runs acts."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from nhi import hooks
from nhi.actors import Actor
from nhi.choices import ActorKind
from nhi.credentials import run_tokens
from nhi.credentials.tokens import ParsedBearerToken, ShortTokenClaims
from nhi.decisions.delegation import ChainLink, DelegationChain, TaskFacts, links_from_json
from supervisor.models import Execution

log = logging.getLogger(__name__)
#: What is kept of a chain is not as it was written.
UNREADABLE = (AttributeError, KeyError, TypeError, ValueError)


def of(actor: Actor, shown: ParsedBearerToken | None, *, delegates: bool) -> DelegationChain:
    """What stands behind a run that this caller asks for."""
    behind = run_tokens.load_chain(shown) or DelegationChain()
    if actor.id is None:
        # The clock, and whoever is at the terminal: nobody who could come round again.
        return behind
    return behind.extended(ChainLink(actor.id, actor.name), delegates=delegates)


def facts(chain: DelegationChain, shown: ParsedBearerToken | None) -> dict[str, Any]:
    """What a run keeps of it; of one that no run asked for, and that acts for itself, who started it says it all."""
    parent = shown.execution_id if isinstance(shown, ShortTokenClaims) else None
    if parent is None and not chain.principal_count:
        return {}
    said: dict[str, Any] = {"chain": chain.callers_as_json()}
    if parent is not None:
        said["parent"] = str(parent)
    if chain.principal_count:
        said["behalf"] = chain.principal_count
    return said


def behind_each(runs: Sequence[Execution]) -> dict[UUID, DelegationChain]:
    """What stands behind runs, by their ids; those are missing of which it cannot be read, and hold up no other."""
    found = {}
    tasks = _tasks(runs)
    for run in runs:
        try:
            found[run.pk] = _behind(run, _tasks_of([run]) if tasks is None else tasks)
        except UNREADABLE:
            log.exception("What stands behind a run cannot be read.", extra={"execution": str(run.pk)})
    return found


def _tasks(runs: Sequence[Execution]) -> Mapping[UUID, TaskFacts] | None:
    """Those that the runs are for; None where one of them is odd."""
    try:
        return _tasks_of(runs)
    except UNREADABLE:
        return None


def _tasks_of(runs: Sequence[Execution]) -> Mapping[UUID, TaskFacts]:
    return hooks.load_tasks([run.task_id for run in runs if run.task_id is not None])


def _behind(run: Execution, tasks: Mapping[UUID, TaskFacts]) -> DelegationChain:
    """What stands behind the task that it is for, else who asked for it."""
    if run.task_id is not None and (task := tasks.get(run.task_id)) is not None:
        return task.chain
    by = run.context.get("by", {})
    if "chain" in by:
        return DelegationChain(links_from_json(by["chain"]), by.get("behalf", 0))
    if run.started_by_id is not None and run.started_by_kind in {ActorKind.USER, ActorKind.IDENTITY}:
        return DelegationChain((ChainLink(run.started_by_id, run.started_by_name),))
    return DelegationChain()
