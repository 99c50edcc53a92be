"""Agents whose tasks become runs, with real programs and a runner in this process."""

from collections.abc import Callable
from typing import Any

import pytest

from a2a import dispatching
from a2a.models import Task
from supervisor.models import Agent, Execution
from tests.a2a import rows
from tests.a2a.conftest import Stage
from tests.supervisor.conftest import make_agent, open_directory, program, runner, shared_directory
from tests.supervisor.waiting import until

__all__ = ["make_agent", "open_directory", "program", "runner", "shared_directory"]


@pytest.fixture
def behind(open_stage: Stage, make_agent: Callable[..., Agent]) -> Callable[..., Agent]:
    """Puts a program behind the stage's writer."""

    def put(script: str = "#!/bin/sh\ncat\n", **given: Any) -> Agent:
        return make_agent(script, **{"name": "echo", "identity": open_stage.writer, "max_retries": 0, **given})

    return put


def sent(stage: Stage, text: str = "Plants need water.", **wished: Any) -> Task:
    """As the stage's planner asks for it."""
    return rows.sent(stage.writer, given={"input": text}, source_agent_id=stage.planner.pk, **wished)


def dispatched(task: Task) -> Execution:
    dispatching.dispatch_due()
    task.refresh_from_db()
    return Execution.objects.get(pk=task.execution_id)


def until_ended(task: Task) -> Task:
    until(lambda: not Task.objects.open().filter(pk=task.pk).exists(), f"the {task} ended")
    task.refresh_from_db()
    return task


def states(task: Task) -> list[str]:
    """Of its events that tell of a state, in order."""
    told = [event.body["statusUpdate"]["status"]["state"] for event in task.events.filter(kind="status")]
    return [state.removeprefix("TASK_STATE_").lower() for state in told]
