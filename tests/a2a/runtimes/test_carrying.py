"""Tasks for other servers: leased to one process, taken up when that is gone, told of when nobody wants them any more.

What speaks to the other server is not here: it is stood in for by what a carrier promises to do.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from uuid import UUID, uuid4

import pytest

from a2a import cancelling, carrier_leases, carriers, carrying, parts, sending, writer
from a2a.carriers import Carrier, Check
from a2a.changes import Made, Status
from a2a.choices import Role, RuntimeKind, TaskState
from a2a.models import Runtime, Task
from common.executors import run_in_thread
from nhi import actors
from nhi.actors import SYSTEM
from supervisor.access import Caller
from tests.a2a import rows
from tests.a2a.conftest import Stage
from tests.nhi import cast

pytestmark = [pytest.mark.capability("A2A-07"), pytest.mark.django_db(transaction=True), pytest.mark.both_databases]


class Far:
    """What the carrier was told, and what it does."""

    def __init__(self) -> None:
        self.carried: list[UUID] = []
        self.cancelled: list[UUID] = []
        self.fails, self.hangs, self.breaks_after_news = False, False, False

    async def carry(self, task_id: UUID, check: Check) -> None:
        self.carried.append(task_id)
        if self.fails:
            raise RuntimeError("far away")
        await run_in_thread(lambda: writer.apply_event(task_id, Status(TaskState.WORKING)))
        if self.breaks_after_news:
            raise RuntimeError("far away")
        if self.hangs:
            # As somebody else does it, from another process, while the server still works.
            await run_in_thread(lambda: cancelling.cancel(actor=SYSTEM, task=Task(pk=task_id)))
            await asyncio.Event().wait()
        done = Made(parts.artifact([parts.text("done")])), Status(TaskState.COMPLETED)
        await run_in_thread(lambda: writer.apply_event(task_id, *done))

    async def forward_cancel(self, task: Task) -> None:
        self.cancelled.append(task.pk)
        await self.tells(task)

    async def tells(self, task: Task) -> None:
        """At once, unless a test puts something else here."""


@pytest.fixture
def far(open_stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Iterator[Far]:
    far = Far()
    monkeypatch.setattr(
        carriers, "_carriers", {RuntimeKind.REMOTE: Carrier(far.carry, far.forward_cancel)}
    )  # fmt: skip
    monkeypatch.setattr(carrying, "LOOK_EVERY", 0.05)
    Runtime.objects.create(
        identity=open_stage.writer, kind="remote", url="https://agents.example.com/", created_at=cast.past(seconds=1)
    )
    yield far


def over(task: Task) -> dict[str, Any]:
    return Task.objects.values("state", "error_code", "dispatch_at", "carrier_mark", "carried_until").get(pk=task.pk)


DONE = {"error_code": "", "dispatch_at": None, "carrier_mark": None, "carried_until": None}


def test_what_is_due_is_carried_once(open_stage: Stage, far: Far) -> None:
    tasks = [rows.sent(open_stage.writer) for _ in range(3)]
    assert open_stage.worker.get("a2a/inbox").body["tasks"] == []
    carrying.carry_due()
    carrying.carry_due()
    assert sorted(far.carried) == sorted(task.pk for task in tasks)
    assert far.cancelled == []
    assert [over(task) for task in tasks] == [{"state": "completed", **DONE}] * 3


def test_a_task_is_leased_to_one(open_stage: Stage, far: Far) -> None:
    task = rows.sent(open_stage.writer)
    mine, other = uuid4(), uuid4()
    assert [one.pk for one in carrier_leases.claim(5, mine)] == [task.pk]
    assert carrier_leases.claim(5, other) == []
    assert carrier_leases.held([task.pk], mine, renew=True) == {task.pk}
    assert carrier_leases.held([task.pk], other, renew=True) == set()
    Task.objects.filter(pk=task.pk).update(carried_until=cast.past(seconds=1))
    assert [one.pk for one in carrier_leases.claim(5, other)] == [task.pk]
    assert carrier_leases.held([task.pk], mine, renew=True) == set()
    carrier_leases.put_down(task, mine, broke=True)
    assert Task.objects.get(pk=task.pk).breakdowns == 0


@pytest.mark.capability("A2A-12")
def test_a_cancel_breaks_off_and_is_forwarded(open_stage: Stage, far: Far) -> None:
    far.hangs = True
    task = rows.sent(open_stage.writer)
    carrying.carry_due()
    assert (far.carried, far.cancelled) == ([task.pk], [task.pk])
    assert over(task) == {"state": "canceled", **DONE}


@pytest.mark.capability("A2A-12")
def test_a_cancel_that_nobody_was_there_for_is_forwarded_later(open_stage: Stage, far: Far) -> None:
    task = rows.sent(open_stage.writer)
    cancelling.cancel(actor=SYSTEM, task=task)
    carrying.carry_due()
    assert (far.carried, far.cancelled) == ([], [task.pk])
    assert over(task) == {"state": "canceled", **DONE}
    carrying.carry_due()
    assert len(far.cancelled) == 1


@pytest.mark.capability("A2A-12")
def test_the_lease_of_what_is_told_of_its_end_is_renewed(open_stage: Stage, far: Far) -> None:
    task = rows.sent(open_stage.writer)
    mine = uuid4()
    carrier_leases.claim(5, mine)
    cancelling.cancel(actor=SYSTEM, task=task)
    Task.objects.filter(pk=task.pk).update(carried_until=cast.past(seconds=1))
    assert carrier_leases.held([task.pk], mine, renew=True) == set()
    assert carrier_leases.claim(5, uuid4()) == []


@pytest.mark.capability("A2A-12")
def test_a_slow_server_is_told_once(open_stage: Stage, far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the lease ends meanwhile, and the same process finds the task due."""
    looks: list[int] = []
    claim = carrier_leases.claim

    def counted(most: int, mark: UUID) -> list[Task]:
        looks.append(most)
        return claim(most, mark)

    async def slowly(task: Task) -> None:
        await run_in_thread(lambda: Task.objects.filter(pk=task.pk).update(carried_until=cast.past(seconds=1)))
        before = len(looks)
        while len(looks) < before + 2 and len(far.cancelled) == 1:
            await asyncio.sleep(0.01)

    monkeypatch.setattr(carrier_leases, "claim", counted)
    monkeypatch.setattr(far, "tells", slowly)
    task = rows.sent(open_stage.writer)
    cancelling.cancel(actor=SYSTEM, task=task)
    carrying.carry_due()
    assert far.cancelled == [task.pk]
    assert over(task) == {"state": "canceled", **DONE}


def test_what_breaks_down_again_and_again_is_given_up(open_stage: Stage, far: Far) -> None:
    far.fails = True
    task = rows.sent(open_stage.writer)
    for _ in range(carrier_leases.MOST_BREAKDOWNS):
        assert Task.objects.get(pk=task.pk).is_open
        carrying.carry_due()
        Task.objects.filter(pk=task.pk, dispatch_at__isnull=False).update(dispatch_at=cast.past(seconds=1))
    assert len(far.carried) == carrier_leases.MOST_BREAKDOWNS
    assert over(task)["state"] == "failed"
    assert over(task)["error_code"] == "system_error"


def test_an_answer_that_comes_while_it_is_put_down_is_not_put_off(open_stage: Stage, far: Far) -> None:
    task = rows.moved(rows.moved(rows.sent(open_stage.writer), TaskState.WORKING), TaskState.INPUT_REQUIRED, "Which?")
    mine = uuid4()
    (claimed,) = carrier_leases.claim(5, mine)
    sending.say(
        caller=Caller(actors.person(open_stage.mara)), task=task,
        message=parts.message(Role.USER, [parts.text("The first.")]),
    )  # fmt: skip
    carrier_leases.put_down(claimed, mine, broke=False)
    assert carrier_leases.claim(5, uuid4()) == [task]


def test_breakdowns_count_from_the_last_that_was_heard(open_stage: Stage, far: Far) -> None:
    task = rows.sent(open_stage.writer)
    Task.objects.filter(pk=task.pk).update(breakdowns=carrier_leases.MOST_BREAKDOWNS - 1)
    far.breaks_after_news = True
    carrying.carry_due()
    left = Task.objects.get(pk=task.pk)
    assert (left.state, left.breakdowns) == (TaskState.WORKING, 1)


def test_nobody_carries_what_nobody_can(open_stage: Stage, far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    task = rows.sent(open_stage.writer)
    monkeypatch.setattr(carriers, "_carriers", {})
    with suppress(Task.DoesNotExist):
        carrying.begin()
    carrying.carry_due()
    assert Task.objects.get(pk=task.pk).state == TaskState.SUBMITTED
