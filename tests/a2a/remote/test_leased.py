"""As a worker carries it, from the lease to what is left of it: one process at a time, and an end to everything."""

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from a2a import carrying as worker
from a2a.choices import TaskState
from a2a.models import Runtime, Task
from tests.a2a.conftest import Stage
from tests.a2a.remote.conftest import Carrying, now_of, told
from tests.a2a.remote.far_side import Answer, FarSide, artifact, result, task
from tests.a2a.remote.test_going_on import in_thread
from tests.nhi import cast

pytestmark = [pytest.mark.capability("A2A-07"), pytest.mark.both_databases]
LATER = "2026-11-19T00:00:01Z"


@pytest.fixture(autouse=True)
def _behind(open_stage: Stage, far: FarSide) -> None:
    made = cast.past(seconds=1)
    Runtime.objects.create(identity=open_stage.writer, kind="remote", url=far.url, created_at=made)


def once(happened: Callable[[], Any], then: Answer) -> Answer:
    """The far side does this before it answers."""

    async def answer(request: Any, writer: Any) -> None:
        await asyncio.to_thread(in_thread(happened))
        await then(request, writer)

    return answer


def test_whoever_lost_its_lease_while_it_was_held_up_writes_nothing_more(
    carrying: Carrying, far: FarSide, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker, "LOOK_EVERY", 60.0)
    sent, successor = carrying.does("report"), uuid4()

    def taken() -> None:
        Task.objects.filter(pk=sent.pk).update(carrier_mark=successor, carried_until=cast.future(seconds=30))

    done = task("completed", at=LATER, artifacts=[artifact("a", "One.")])
    far.on = {"SendMessage": [result({"task": task("working")})], "GetTask": [once(taken, result(done))]}
    worker.carry_due()
    left = now_of(sent)
    assert (left.state, left.carrier_mark, left.breakdowns) == (TaskState.WORKING, successor, 0)
    assert told(left) == ["task", ("working", "")]
    assert not left.remote.over
    assert not [record for record in caplog.records if record.exc_info]
