"""What the clock finds: everything that was missed, and one row's trouble is no other's."""

import threading
from typing import Any

import pytest
from django.db import connection

from a2a import cancelling, chains, parts, sending, sweeping, writer
from a2a.celery_tasks import end_late
from a2a.changes import Status
from a2a.choices import DeliveryState, Role, TaskState, Trouble
from a2a.models import Delivery, Task
from config.celery import app
from nhi import actors
from nhi.actors import SYSTEM
from nhi.identities import lifecycle
from nhi.models import Identity
from supervisor.access import Caller
from tests.a2a.conftest import ASKED, Stage
from tests.nhi import cast

pytestmark = [pytest.mark.capability("A2A-12", "NHI-03", "A2A-02"), pytest.mark.both_databases]


def row(task_id: str) -> Task:
    return Task.objects.get(pk=task_id)


def late(task_id: str) -> None:
    Task.objects.filter(pk=task_id).update(deadline=cast.past(seconds=1))


def part_of(stage: Stage, parent: str) -> str:
    """A task of the writer's for another agent, within its own."""
    helper = cast.agent("helper")
    cast.nhi_grant(stage.writer, helper)
    reply = stage.sends(stage.worker, target_agent_id=str(helper.pk), parent_task_id=parent)
    assert reply.status == 201, reply.body
    return str(reply.body["task_id"])


def test_one_task_that_cannot_be_ended_holds_up_no_other(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = stage.sent(), stage.sent()
    late(bad)
    late(good)
    apply = writer.apply_event

    def broken(task_id: Any, *changes: Any, **more: Any) -> Task:
        if str(task_id) == bad:
            raise RuntimeError("this row is broken")
        return apply(task_id, *changes, **more)

    monkeypatch.setattr(writer, "apply_event", broken)
    sweeping.sweep()
    assert (row(bad).state, row(good).state) == (TaskState.SUBMITTED, TaskState.FAILED)


def test_deadlines_are_looked_for_every_second(stage: Stage) -> None:
    tick = app.conf.beat_schedule["end-late-tasks"]
    assert tick["schedule"] <= 1.0
    task_id, other = stage.sent(), stage.sent()
    late(task_id)
    assert tick["task"] == end_late.name
    end_late()
    assert (row(task_id).state, row(task_id).error_code) == (TaskState.FAILED, "deadline_exceeded")
    assert row(other).state == TaskState.SUBMITTED


def test_a_step_that_fails_holds_up_no_other(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("this step is broken")

    done: list[str] = []
    monkeypatch.setattr(sweeping, "STEPS", (broken, lambda: done.append("done")))
    sweeping.sweep()
    assert done == ["done"]


def test_a_part_that_a_cancel_missed_is_found(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = stage.sent()
    stage.claimed(parent)
    part = part_of(stage, parent)
    # As if the process had ended between the two.
    monkeypatch.setattr(cancelling, "cancel_within", lambda *_, **__: None)
    cancelling.cancel(actor=SYSTEM, task=row(parent))
    monkeypatch.undo()
    assert row(part).state == TaskState.SUBMITTED
    sweeping.sweep()
    assert (row(part).state, row(part).error_code) == (TaskState.CANCELED, cancelling.WITH_PARENT)


def test_what_a_stopped_agent_asked_for_is_found(stage: Stage) -> None:
    task_id = stage.sent()
    suspended = {"state": "suspended", "state_by": "mara", "state_reason": "Leaked"}
    Identity.objects.filter(pk=stage.planner.pk).update(**suspended)
    sweeping.sweep()
    ended = row(task_id)
    assert (ended.state, ended.error_code) == (TaskState.CANCELED, cancelling.STOPPED)
    assert ended.error_message == "Cancelled, since planner may not act."
    assert ended.cancel_reason == "planner was suspended by mara: Leaked"


def test_what_an_agent_asked_for_whose_time_is_over_goes_on(stage: Stage) -> None:
    task_id = stage.sent()
    Identity.objects.filter(pk=stage.planner.pk).update(expires_at=cast.past(seconds=1))
    sweeping.sweep()
    assert row(task_id).state == TaskState.SUBMITTED


def test_a_part_is_not_sent_into_what_is_being_ended(open_stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sent while its parent is cancelled: it is cancelled with it, or refused."""
    stage, parent = open_stage, open_stage.sent()
    stage.claimed(parent)
    helper = cast.agent("helper")
    cast.nhi_grant(stage.writer, helper)
    looked, over = threading.Event(), threading.Event()
    of = chains.of

    def slow(*args: Any, **more: Any) -> Any:
        found = of(*args, **more)
        looked.set()
        # On SQLite nobody else writes meanwhile.
        over.wait(5 if connection.vendor == "postgresql" else 0.1)
        return found

    monkeypatch.setattr(sending.chains, "of", slow)
    replies: list[int] = []

    def send() -> None:
        asked = {"target_agent_id": str(helper.pk), "parent_task_id": parent, "input": ASKED}
        replies.append(stage.sends(stage.worker, **asked).status)
        connection.close()

    sender = threading.Thread(target=send)
    sender.start()
    assert looked.wait(5)
    try:
        cancelling.cancel(actor=SYSTEM, task=row(parent))
    finally:
        over.set()
        sender.join()
    sweeping.sweep()
    assert replies == [409] or not Task.objects.open().exists()
    if connection.vendor == "postgresql":
        assert replies == [409]


def test_a_receiver_that_nobody_can_read_any_more_lets_the_task_end(stage: Stage) -> None:
    task_id = stage.sent(callback_url="https://hooks.example.com/done?token=hunter2hunter2")
    Task.objects.filter(pk=task_id).update(sealed_callback_url="gone.AAAA")
    writer.apply_event(row(task_id).pk, Status(TaskState.CANCELED))
    told = Delivery.objects.get(task_id=task_id)
    assert (told.state, told.reason, told.next_at) == (DeliveryState.DEAD, Trouble.UNREADABLE, None)


def test_a_task_holds_so_many_bytes_and_can_be_ended_then(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MOST_BYTES", 3000)
    task_id = stage.sent()
    token = stage.claimed(task_id)
    made = {"lease_token": token, "append": True, "artifact": {"artifactId": "a", "parts": [{"text": "x" * 1000}]}}
    statuses = [stage.worker.post(f"a2a/inbox/{task_id}/artifacts", made).status for _ in range(4)]
    assert statuses[:2] == [200, 200]
    refused = stage.worker.post(f"a2a/inbox/{task_id}/artifacts", made)
    assert refused.is_refused(409, "Conflict", "task_full")
    assert refused.body["details"]["limit"] == 3000
    assert stage.tells(task_id, "complete", lease_token=token, result=None).status == 200


def test_a_task_that_was_answered_again_and_again_is_not_given_up(stage: Stage) -> None:
    task_id = stage.sent()
    for _ in range(6):
        token = stage.claimed(task_id)
        assert stage.tells(task_id, "ask", lease_token=token, message="Which?").status == 200
        message = parts.message(Role.USER, [parts.text("This one.")])
        sending.say(caller=Caller(actors.identity(stage.planner)), task=row(task_id), message=message)
    stage.claimed(task_id)
    Task.objects.filter(pk=task_id).update(lease_until=cast.past(seconds=1))
    sweeping.sweep()
    assert row(task_id).state == TaskState.WORKING


def test_suspending_cancels_what_it_asked_for_at_once(open_stage: Stage) -> None:
    task_id = open_stage.sent()
    lifecycle.suspend(actor=SYSTEM, identity=open_stage.planner, reason="leaked")
    assert row(task_id).state == TaskState.CANCELED
