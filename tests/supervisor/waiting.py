"""Waiting for runs that another thread or process carries on."""

from collections.abc import Callable

from supervisor.choices import ExecutionState
from supervisor.models import Execution
from tests.services.waiting import wait_for

LONGEST = 20.0


def until(fact: Callable[[], object], what: str) -> None:
    wait_for(fact, LONGEST, f"so that {what}")


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
