"""Agents whose tasks become runs, with real programs and a runner in this process."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from a2a import dispatching, relaying
from a2a.models import Task
from supervisor.models import Agent, Execution
from tests.a2a import rows
from tests.a2a.conftest import Stage
from tests.supervisor.conftest import example, make_agent, open_directory, program, runner, shared_directory
from tests.supervisor.waiting import until

__all__ = ["example", "make_agent", "open_directory", "program", "runner", "shared_directory"]


#: Says something, and goes on once the test has put down a file of this name.
HEAD = """#!/usr/bin/env python3
import os, sys, time
def say(text, end="\\n"):
    print(text, end=end, flush=True)
def hold(name):
    while not os.path.exists(os.path.join({place!r}, name)):
        time.sleep(0.02)
"""


class Play:
    """A program of a few lines that the test leads from one to the next."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def script(self, *lines: str) -> str:
        return HEAD.format(place=str(self.place)) + "\n".join(lines) + "\n"

    def release(self, name: str) -> None:
        (self.place / name).touch()


@pytest.fixture
def play(shared_directory: Path) -> Play:
    return Play(shared_directory)


@pytest.fixture(autouse=True)
def _desk_is_left() -> Iterator[None]:
    """Its thread is over before the next test."""
    yield
    until(lambda: relaying.office._thread is None, "nothing was left to tell")


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


def told(task: Task) -> list[tuple[str, bool, bool]]:
    """The text of each piece, whether it is added to those before, and whether it is the last."""
    pieces = [event.body["artifactUpdate"] for event in task.events.filter(kind="artifact").order_by("seq")]
    return [(one["artifact"]["parts"][0]["text"], one["append"], one["lastChunk"]) for one in pieces]


def until_told(task: Task, *texts: str) -> None:
    until(lambda: [text for text, _, _ in told(task)] == [*texts], f"the pieces were {texts}")
