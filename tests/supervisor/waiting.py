"""Waiting for runs that another thread or process carries on."""

import time
from collections.abc import Callable

from supervisor.choices import ExecutionState
from supervisor.models import Execution

LONGEST = 20.0


def until(fact: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + LONGEST
    while not fact():
        assert time.monotonic() < deadline, f"It did not come to pass that {what}."
        time.sleep(0.02)


def until_over(execution: Execution) -> Execution:
    """Done and cleared away."""
    done = Execution.objects.done().filter(pk=execution.pk, state=ExecutionState.IDLE)
    until(done.exists, f"{execution} was over")
    execution.refresh_from_db()
    return execution


def until_running(execution: Execution) -> Execution:
    running = Execution.objects.filter(pk=execution.pk, state=ExecutionState.RUNNING)
    until(running.exists, f"{execution} was running")
    execution.refresh_from_db()
    return execution
