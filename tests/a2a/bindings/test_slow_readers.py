"""Who reads slowly holds few bytes of what happens meanwhile, and is told all of it in the end."""

import gc
from contextlib import aclosing
from typing import Any
from uuid import UUID

import pytest

from a2a import parts, writer
from a2a.changes import Made, Status
from a2a.choices import TaskState
from a2a.models import Task, TaskEvent
from a2a.operations import following
from a2a.operations.answers import Began
from a2a.operations.following import KEPT_BYTES, PAGE_BYTES, Item
from tests.a2a.bindings.conftest import Agent, in_loop, run_in_thread

pytestmark = [pytest.mark.capability("A2A-05"), pytest.mark.both_databases]
MANY, LARGE = 40, 256 * 1024
#: Its words beside what the agent made.
EVENT = LARGE + 1024


def makes(task_id: UUID, number: int) -> None:
    made = parts.artifact([parts.text("x" * LARGE)], artifact_id=f"piece-{number}")
    writer.apply_event(task_id, Made(made))


def items() -> list[Item]:
    """All events that anything in this process still has."""
    gc.collect()
    # What is lazy among all that there is would be made by asking it what it is.
    return [one for one in gc.get_objects() if type(one) is Item]


def held() -> int:
    return sum(one.size for one in items())


def held_tasks() -> list[Item]:
    return [one for one in items() if "task" in one.body]


def followed(task: Task, after: int | None = 1) -> Any:
    began = Began(task, UUID(int=1))
    return aclosing(following.follow(began, after=after, quiet=60))


def test_a_slow_reader_holds_few_bytes_and_misses_nothing(agent: Agent) -> None:
    async def whole() -> None:
        task = await run_in_thread(lambda: Task.objects.get(pk=agent.stage.sent()))
        every = list(range(2, MANY + 3))
        async with followed(task) as quick, followed(task) as slow, followed(task) as slower:
            assert [await anext(one) for one in (quick, slow, slower)] == [None] * 3, "there is nothing to tell yet"
            await run_in_thread(lambda: writer.apply_event(task.pk, Status(TaskState.WORKING)))
            told = {name: [(await anext(one)).seq] for name, one in (("quick", quick), ("slow", slow))}
            for number in range(MANY):
                await run_in_thread(lambda number=number: makes(task.pk, number))
                told["quick"].append((await anext(quick)).seq)
                if number == MANY // 2:
                    # Half of it is behind now, and waits in nobody's memory.
                    told["slow"].append((await anext(slow)).seq)
            assert told["quick"] == every
            assert held() <= KEPT_BYTES + 2 * (PAGE_BYTES + EVENT)
            while told["slow"][-1] != every[-1]:
                told["slow"].append((await anext(slow)).seq)
            assert told["slow"] == every
            assert [(await anext(slower)).seq for _ in every] == every

    in_loop(whole())


def test_how_a_task_stood_is_not_kept_for_as_long_as_it_is_followed(agent: Agent) -> None:
    async def whole() -> None:
        task = await run_in_thread(lambda: Task.objects.get(pk=agent.stage.sent()))
        answer = await agent.rpc("SubscribeToTask", {"id": str(task.pk)})
        events = answer.events()
        assert (await anext(events)).id == "1"
        # It is written, and whoever wrote it waits for more.
        for _ in range(20):
            await run_in_thread(lambda: None)
        assert not held_tasks()
        await answer.leave()

    in_loop(whole())


def test_events_of_before_their_bytes_were_counted_are_read_too(agent: Agent) -> None:
    task_id = UUID(agent.stage.sent())
    writer.apply_event(task_id, Status(TaskState.WORKING))
    for number in range(20):
        writer.apply_event(task_id, Made(parts.artifact([parts.text("x")], artifact_id=f"piece-{number}")))
    TaskEvent.objects.filter(task_id=task_id).update(size=None)
    seen = [0]
    while found := following.read(task_id, seen[-1]):
        assert sum(one.size for one in found[:-1]) < PAGE_BYTES
        seen += [one.seq or 0 for one in found]
    assert seen == list(range(23))


def test_an_event_says_its_bytes(agent: Agent) -> None:
    task_id = UUID(agent.stage.sent())
    makes_small = parts.artifact([parts.text("é")])
    writer.apply_event(task_id, Status(TaskState.WORKING), Made(makes_small))
    task = Task.objects.get(pk=task_id)
    assert sum(TaskEvent.objects.filter(task=task).values_list("size", flat=True)) == task.size
