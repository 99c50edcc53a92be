"""A cancel here is told there, however late; and what ends there ends here."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from a2a import cancelling
from a2a.choices import TaskState
from a2a.models import Task
from a2a.remote import Carried, Target, carry, forward_cancel
from a2a.remote import carrying as carrying_module
from nhi import actors
from nhi.models import User
from tests.a2a.remote.conftest import Carrying, now_of, run
from tests.a2a.remote.far_side import TASK_ID, FarSide, error, hang, once, result, status, task
from tests.a2a.remote.interrupting import in_thread, left_alone
from tests.nhi import cast
from tests.services.peers import PeerAgent

pytestmark = pytest.mark.capability("A2A-07")


def cancelled_when(target: Target, task: Task, when: Callable[[], Any], verb: Callable[[], Any]) -> Carried:
    """Carried, while somebody does something to the task."""

    async def main() -> Carried:
        carried = asyncio.create_task(carry(task_id=task.pk, target=target))
        await asyncio.to_thread(when)
        await asyncio.to_thread(in_thread(verb))
        return await carried

    return run(main)


def cancel(task: Task) -> Callable[[], Any]:
    return lambda: cancelling.cancel(actor=actors.person(User.objects.get(username="mara")), task=task)


def test_a_cancel_here_is_final_first_and_told_there(carrying: Carrying, streaming_agent: PeerAgent) -> None:
    for version in ("1.0", "0.3"):
        for binding in ("JSONRPC", "HTTP+JSON", "GRPC"):
            (streaming_agent.place / "notes").unlink(missing_ok=True)
            sent = carrying.does("wait")
            target = Target(streaming_agent.url, version=version, binding=binding)

            def heard() -> None:
                streaming_agent.wait_for_note("waits")

            assert cancelled_when(target, sent, heard, cancel(sent)) == Carried.ENDED
            done = now_of(sent)
            assert done.state == TaskState.CANCELED
            assert done.remote.cancel_settled
            (note,) = streaming_agent.notes("cancelled")
            assert note["task"] == done.remote.remote_task_id
            assert "task.cancel_forwarded" in cast.events(done)


def test_a_cancel_while_the_message_is_leaving_waits_for_what_to_cancel(
    carrying: Carrying, far: FarSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carrying_module, "GRACE", 20.0)
    release = asyncio.Event()

    slowly = once(release, result({"task": task("working")}))
    far.on = {"SendMessage": [slowly], "CancelTask": [status(503), result(task("canceled"))]}
    sent = carrying.does("wait")

    def cancelled_and_released() -> None:
        cancel(sent)()
        far.loop.call_soon_threadsafe(release.set)

    cancelled_when(Target(far.url), sent, lambda: far.wait_for("SendMessage"), cancelled_and_released)
    assert now_of(sent).state == TaskState.CANCELED
    assert [request.body["params"]["id"] for request in far.named("CancelTask")] == [TASK_ID] * 2


def test_a_cancel_of_what_has_no_name_there_is_on_record(carrying: Carrying, far: FarSide) -> None:
    far.on = {"SendMessage": [hang]}
    sent = carrying.does("wait")
    cancelled_when(Target(far.url), sent, lambda: far.wait_for("SendMessage"), cancel(sent))
    assert "task.cancel_not_forwarded" in cast.events(now_of(sent))


def test_a_cancel_that_cannot_be_told_is_on_record(carrying: Carrying, far: FarSide) -> None:
    far.on = {
        "SendMessage": [result({"task": task("working")})],
        "GetTask": [result(task("working"))],
        "CancelTask": [status(500)],
    }
    sent = carrying.does("wait")
    cancelled_when(Target(far.url), sent, lambda: far.wait_for("GetTask"), cancel(sent))
    assert len(far.named("CancelTask")) == 4
    assert "task.cancel_not_forwarded" in cast.events(now_of(sent))
    assert now_of(sent).remote.cancel_settled


def test_a_cancel_that_nobody_was_there_to_tell_is_told_later(carrying: Carrying, far: FarSide) -> None:
    far.on = {
        "SendMessage": [result({"task": task("working")})],
        "GetTask": [result(task("working"))],
        "CancelTask": [error(-32002, "It is over.")],
    }
    sent = carrying.does("wait")
    left_alone(Target(far.url), sent, lambda: far.wait_for("GetTask"))
    assert run(lambda: forward_cancel(task_id=sent.pk, target=Target(far.url))) is False
    cancel(sent)()
    assert run(lambda: forward_cancel(task_id=sent.pk, target=Target(far.url))) is True
    assert run(lambda: forward_cancel(task_id=sent.pk, target=Target(far.url))) is False
    assert len(far.named("CancelTask")) == 1


def test_an_end_there_is_an_end_here_with_its_parts(carrying: Carrying, far: FarSide) -> None:
    far.on = {"SendMessage": [result({"task": task("canceled", "We close.")})]}
    sent = carrying.does("report")
    part = carrying.does("report")
    Task.objects.filter(pk=part.pk).update(parent=sent)
    carrying.carry(sent, Target(far.url))
    done = now_of(sent)
    assert (done.state, done.error_code, done.error_message) == (TaskState.CANCELED, "remote_canceled", "We close.")
    assert done.cancelled_by_name == "writer"
    assert Task.objects.get(pk=part.pk).state == TaskState.CANCELED
    assert not far.named("CancelTask")
