"""Runs that agents ask for: who asked whom, and on whose behalf what runs acts."""

from typing import Any

from nhi import registry, run_tokens
from nhi.actors import Actor
from nhi.chains import Chain, Link, links
from nhi.choices import ActorKind
from nhi.tokens import Parsed, ParsedToken
from supervisor.models import Execution


def of(actor: Actor, shown: Parsed | None, *, delegates: bool) -> Chain:
    """What stands behind a run that this caller asks for."""
    behind = run_tokens.chain_behind(shown) or Chain()
    if actor.id is None:
        # The clock, and whoever is at the terminal: nobody who could come round again.
        return behind
    return behind.asks(Link(actor.id, actor.name), delegates=delegates)


def facts(chain: Chain, shown: Parsed | None) -> dict[str, Any]:
    """What a run keeps of it; of one that no run asked for, and that acts for itself, who started it says it all."""
    parent = shown.execution_id if isinstance(shown, ParsedToken) else None
    if parent is None and not chain.behalf:
        return {}
    said: dict[str, Any] = {"chain": chain.names()}
    if parent is not None:
        said["parent"] = str(parent)
    if chain.behalf:
        said["behalf"] = chain.behalf
    return said


def behind(run: Execution) -> Chain:
    """What stands behind a run: what stands behind the task that it is for, else who asked for it."""
    if run.task_id is not None:
        task = registry.tasks([run.task_id]).get(run.task_id)
        if task is not None:
            return task.chain
    by = run.context.get("by", {})
    if "chain" in by:
        return Chain(links(by["chain"]), by.get("behalf", 0))
    if run.started_by_id is not None and run.started_by_kind in {ActorKind.USER, ActorKind.IDENTITY}:
        return Chain((Link(run.started_by_id, run.started_by_name),))
    return Chain()
