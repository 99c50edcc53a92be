"""Runs that agents ask for: who asked whom, and where that ends.

A run's token names the run. One that asks for another hands its chain on, so that agents that ask each other stop at
the first who would come round again, or at the fifth.
"""

from typing import Any

from common.errors import NotAllowed
from nhi.tokens import ParsedToken
from supervisor.access import Caller
from supervisor.models import Agent, Execution

DEEPEST = 5


def of(caller: Caller, agent: Agent) -> dict[str, Any]:
    """For the row of a run that is asked for: the agents above it. Refuses one that would go on for ever."""
    parent = _parent(caller)
    if parent is None:
        return {}
    above = [*parent.context.get("chain", []), parent.agent_name]
    if agent.name in above:
        said = f"{agent} is above this run in {' > '.join(above)}: it would come round again."
        raise NotAllowed(said, details={"reason": "chain_cycle", "chain": above})
    if len(above) >= DEEPEST:
        said = f"{' > '.join(above)} is as deep as runs may ask for runs."
        raise NotAllowed(said, details={"reason": "chain_too_deep", "chain": above})
    return {"parent": str(parent.pk), "chain": above}


def _parent(caller: Caller) -> Execution | None:
    shown = caller.shown
    if not isinstance(shown, ParsedToken) or shown.execution_id is None:
        return None
    return Execution.objects.filter(pk=shown.execution_id).first()
