"""Agents that wait until they are stopped, for what a runner takes to hold them."""

import time
from uuid import UUID

from benchmarks.runs import rows, waiting
from benchmarks.runs.programs import RESTING
from supervisor import cancelling, submitting
from supervisor.choices import ExecutionState
from supervisor.models import Execution
from supervisor.submitting import Wish

#: What they take while they wait is asked for: in these seconds the start of the last is over, which no event tells.
SETTLES = 1.0


def begin(count: int) -> list[UUID]:
    """Returns when all of them run."""
    agent, caller = rows.agent(RESTING), rows.caller()
    asked = [submitting.submit(caller=caller, agent=agent, wish=Wish()).execution.pk for _ in range(count)]
    waiting.until(lambda: _all_are(asked, ExecutionState.RUNNING), f"{count} runs were running")
    time.sleep(SETTLES)
    return asked


def end(asked: list[UUID]) -> None:
    """Returns when nothing of them is left."""
    for execution in Execution.objects.filter(pk__in=asked):
        cancelling.cancel(actor=rows.caller().actor, execution=execution, reason="It was measured.")
    waiting.until(lambda: _all_are(asked, ExecutionState.IDLE), f"{len(asked)} runs were stopped")


def _all_are(asked: list[UUID], state: ExecutionState) -> bool:
    return Execution.objects.filter(pk__in=asked, state=state).count() == len(asked)
