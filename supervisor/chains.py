"""Runs that agents ask for: who asked whom, as the token of a run tells it."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from nhi.tokens import Parsed, ParsedToken
from supervisor.models import Execution

DEEPEST = 5


@dataclass(frozen=True)
class Chain:
    parent: UUID
    #: The names of the agents above, the first one first.
    above: list[str]

    def __str__(self) -> str:
        return " > ".join(self.above)

    def facts(self) -> dict[str, Any]:
        return {"parent": str(self.parent), "chain": self.above}


def behind(shown: Parsed | None) -> Chain | None:
    """The chain that a run asks at the end of; None for everybody else."""
    if not isinstance(shown, ParsedToken) or shown.execution_id is None:
        return None
    run = Execution.objects.filter(pk=shown.execution_id).first()
    return of(run) if run else None


def of(run: Execution) -> Chain:
    """The chain of what this run asks for."""
    return Chain(run.pk, [*run.context["by"].get("chain", []), run.agent_name])
