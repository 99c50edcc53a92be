"""As a worker carries it, from the lease to what is left of it: one process at a time, and an end to everything."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection

from a2a import carrying as worker
from a2a import covering, showing, writer
from a2a.choices import TaskState
from a2a.models import Endpoint, Runtime, Task
from common.db import clock
from tests.a2a.conftest import Stage
from tests.a2a.remote.conftest import Carrying, now_of, told
from tests.a2a.remote.far_side import TASK_ID, Answer, FarSide, artifact, made, result, stream, task, update
from tests.a2a.remote.interrupting import in_thread
from tests.nhi import cast

pytestmark = [pytest.mark.capability("A2A-07"), pytest.mark.both_databases]
LATER = "2026-11-19T00:00:01Z"
LARGE = task("working", artifacts=[artifact("a", "x" * 2000)])


@pytest.fixture(autouse=True)
def _behind(open_stage: Stage, far: FarSide) -> None:
    chosen = cast.past(seconds=1)
    Runtime.objects.create(identity=open_stage.writer, kind="remote", url=far.url, created_at=chosen)


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


@pytest.fixture
def _little_room(open_stage: Stage) -> None:
    Endpoint.objects.update_or_create(identity=open_stage.writer, defaults={"max_output_size": 1024})


def failed(sent: Task, caplog: pytest.LogCaptureFixture) -> tuple[str, str]:
    """With what it failed, its server having been told, without a breakdown of ours."""
    done = now_of(sent)
    assert (done.state, done.breakdowns, done.dispatch_at) == (TaskState.FAILED, 0, None)
    assert (done.remote.remote_task_id, done.remote.cancel_settled) == (TASK_ID, True)
    assert not [record for record in caplog.records if record.exc_info]
    return done.error_code, done.error_message


@pytest.mark.usefixtures("_little_room")
@pytest.mark.parametrize(
    "answers",
    [
        {"SendMessage": [result({"task": LARGE})]},
        {"SendMessage": [result({"task": task("working")})], "GetTask": [result(LARGE)]},
    ],
    ids=["at first", "later"],
)
def test_more_than_a_task_has_room_for_fails_it(
    carrying: Carrying, far: FarSide, caplog: pytest.LogCaptureFixture, answers: dict[str, list[Answer]]
) -> None:
    far.on = {**answers, "CancelTask": [result(task("canceled"))]}
    sent = carrying.does("report")
    worker.carry_due()
    code, said = failed(sent, caplog)
    assert (code, "more than 1024 bytes" in said) == ("output_too_large", True)
    assert len(far.named("CancelTask")) == len(far.named("SendMessage")) == 1


@pytest.mark.usefixtures("_little_room")
def test_more_than_there_is_room_for_in_answer_to_its_caller_fails_it_at_once(
    carrying: Carrying, far: FarSide, caplog: pytest.LogCaptureFixture
) -> None:
    asked = result({"task": task("input_required", "Which?")})
    far.on = {"SendMessage": [asked, result({"task": LARGE})], "CancelTask": [result(task("canceled"))]}
    sent = carrying.does("ask")
    worker.carry_due()
    carrying.says(sent, "The first.")
    worker.carry_due()
    assert failed(sent, caplog)[0] == "output_too_large"
    assert not far.named("GetTask")


@pytest.mark.parametrize(("limit", "most"), [("MOST_EVENTS", 2), ("MOST_BYTES", 500)])
def test_more_than_a_task_holds_fails_it(
    carrying: Carrying, far: FarSide, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    limit: str, most: int,
) -> None:  # fmt: skip
    more = task("working", artifacts=[artifact("a", "One.")])
    far.on = {"SendMessage": [result({"task": task("working")})], "GetTask": [result(more)]}
    far.on["CancelTask"] = [result(task("canceled"))]
    sent = carrying.does("report")
    monkeypatch.setattr(writer, limit, most)
    worker.carry_due()
    code, said = failed(sent, caplog)
    assert code == "task_full"
    assert f"{most} {'events' if limit == 'MOST_EVENTS' else 'bytes'}, which is as " in said


def test_nothing_is_looked_through_while_the_task_is_locked(
    carrying: Carrying, far: FarSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To find what may not be kept takes as long as what was said."""
    shown, within = covering.shown, []

    def watched(value: Any) -> Any:
        within.append(connection.in_atomic_block)
        return shown(value)

    first, second, third = "One.", "Two.", "password=hunter2hunter2"
    far.streaming = True
    far.on = {
        "SendStreamingMessage": [stream({"task": task("working", "Reading.", artifacts=[artifact("a", first)])})],
        "GetTask": [result(task("working", "Reading.", artifacts=[artifact("a", first, second, third)]))],
        "SubscribeToTask": [stream(made("a", "Four.", append=True), update("completed", "Done.", at=LATER))],
    }
    sent = carrying.does("report")
    monkeypatch.setattr(covering, "shown", watched)
    worker.carry_due()
    assert len(within) >= 5
    assert not any(within)
    kept = [part["text"] for part in showing.made(sent.pk)[0]["parts"]]
    assert (kept[0], kept[1], kept[3]) == (first, second, "Four.")
    assert "hunter2" not in kept[2]
    assert told(now_of(sent))[-1] == ("completed", "Done.")


def test_what_waits_for_its_caller_is_looked_at_now_and_then(carrying: Carrying, far: FarSide) -> None:
    """Less and less often; its server may have moved on by itself."""
    asked = task("input_required", "Which?")
    far.on = {"SendMessage": [result({"task": asked})], "GetTask": [result(asked), result(task("completed", at=LATER))]}
    sent = carrying.does("ask")

    def carried(after: timedelta) -> timedelta:
        """How long it is left alone once it has waited so long."""
        waits = Task.objects.filter(pk=sent.pk, state=TaskState.INPUT_REQUIRED)
        waits.update(state_at=clock.database_now() - after, dispatch_at=cast.past(seconds=1))
        worker.carry_due()
        left = now_of(sent)
        return left.dispatch_at - clock.database_now() if left.dispatch_at else timedelta()

    pauses = [carried(timedelta()), carried(timedelta(days=2)), carried(timedelta(days=3))]
    assert [round(pause.total_seconds() / 60) for pause in pauses] == [1, 15, 0]
    assert len(far.named("GetTask")) == 2
    assert now_of(sent).state == TaskState.COMPLETED


def test_an_answer_of_its_caller_leaves_at_once(carrying: Carrying, far: FarSide) -> None:
    far.on["SendMessage"] = [result({"task": task("input_required", "Which?")}), result({"task": task("completed")})]
    sent = carrying.does("ask")
    worker.carry_due()
    carrying.says(sent, "The first.")
    worker.carry_due()
    assert now_of(sent).state == TaskState.COMPLETED
