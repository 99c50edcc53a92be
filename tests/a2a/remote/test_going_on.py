"""A task that is carried on is taken up again after whatever broke: nothing is told twice, nothing is sent twice."""

import asyncio

import pytest

from a2a import inbox, parts
from a2a.carriers import Elsewhere
from a2a.changes import Said
from a2a.choices import Role, TaskState
from a2a.models import RemoteTask, Task
from a2a.remote import Carried, Target, carry, keeping
from a2a.remote import carrying as carrying_module
from a2a.remote.target import Interface
from a2a.writer import apply_event
from tests.a2a.remote.conftest import Carrying, now_of, run, told
from tests.a2a.remote.far_side import TASK_ID, FarSide, artifact, error, hang, made, once, result, stream, task, update
from tests.a2a.remote.interrupting import in_thread, left_alone
from tests.nhi import cast
from tests.services.waiting import wait_for

pytestmark = pytest.mark.capability("A2A-07")
LATER = "2026-11-19T00:00:01Z"


def test_a_broken_stream_is_taken_up_where_it_broke(carrying: Carrying, far: FarSide) -> None:
    far.streaming = True
    far.on = {
        "SendStreamingMessage": [
            stream({"task": task("submitted")}, update("working", "Reading."), made("a", "One. "))
        ],
        "GetTask": [result(task("working", "Reading.", artifacts=[artifact("a", "One. ", "Two. ")]))],
        "SubscribeToTask": [
            stream(
                {"task": task("working", "Reading.", artifacts=[artifact("a", "One. ", "Two. ")])},
                made("a", "Three.", append=True),
                made("b", "Four."),
                update("completed", at=LATER),
            )
        ],
    }
    sent = carrying.does("report")
    assert carrying.carry(sent, Target(far.url)) == Carried.ENDED
    assert told(now_of(sent)) == [
        "task",
        ("working", "Reading."),
        ("a", "One. ", False),
        ("a", "Two. ", True),
        ("a", "Three.", True),
        ("b", "Four.", False),
        ("completed", ""),
    ]
    assert len(far.named("SendStreamingMessage")) == 1


def test_what_is_not_what_was_told_before_is_told_anew(carrying: Carrying, far: FarSide) -> None:
    far.on = {
        "SendMessage": [result({"task": task("working", artifacts=[artifact("a", "Draft.")])})],
        "GetTask": [result(task("completed", at=LATER, artifacts=[artifact("a", "Final.")]))],
    }
    sent = carrying.does("report")
    carrying.carry(sent, Target(far.url))
    assert told(now_of(sent)) == [
        "task",
        ("a", "Draft.", False),
        ("working", ""),
        ("a", "Final.", False),
        ("completed", ""),
    ]
    assert now_of(sent).result == {"text": "Final."}


def test_another_process_goes_on_where_one_ended(carrying: Carrying, far: FarSide) -> None:
    far.streaming = True
    far.on["SendStreamingMessage"] = [stream({"task": task("working")}, made("a", "One."), then=hang)]
    sent = carrying.does("report")
    target = Target(far.url)

    left_alone(target, sent, in_thread(lambda: wait_for(sent.artifacts.exists, 20, "relayed")))
    assert now_of(sent).state == TaskState.WORKING
    far.on["GetTask"] = [result(task("completed", at=LATER, artifacts=[artifact("a", "One.")]))]
    assert carrying.carry(sent, target) == Carried.ENDED
    assert told(now_of(sent)) == ["task", ("working", ""), ("a", "One.", False), ("completed", "")]
    assert len(far.named("SendStreamingMessage")) == 1


def test_what_was_leaving_when_the_process_ended_is_not_sent_again(carrying: Carrying, far: FarSide) -> None:
    far.on["SendMessage"] = [hang]
    sent = carrying.does("report")
    target = Target(far.url)
    left_alone(target, sent, lambda: far.wait_for("SendMessage"))
    assert now_of(sent).remote.leaving == 1
    far.on["SendMessage"] = [result({"task": task("completed")})]
    carrying.carry(sent, target)
    done = now_of(sent)
    assert (done.state, done.error_code) == (TaskState.FAILED, "remote_lost")
    assert len(far.named("SendMessage")) == 1


def test_a_worker_that_ends_waits_for_what_it_just_sent(
    carrying: Carrying, far: FarSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carrying_module, "GRACE", 20.0)
    release = asyncio.Event()

    slowly = once(release, result({"task": task("working")}))
    far.on = {"SendMessage": [slowly], "GetTask": [result(task("completed", at=LATER))]}
    sent = carrying.does("report")
    target = Target(far.url)

    async def main() -> None:
        carried = asyncio.create_task(carry(task_id=sent.pk, target=target))
        await asyncio.to_thread(far.wait_for, "SendMessage")
        carried.cancel()
        far.loop.call_soon_threadsafe(release.set)
        await asyncio.gather(carried, return_exceptions=True)

    run(main)
    assert now_of(sent).remote.arrived == 1
    assert carrying.carry(sent, target) == Carried.ENDED
    assert now_of(sent).state == TaskState.COMPLETED


def test_an_answer_of_which_nobody_knows_whether_it_arrived_is_asked_for_again(
    carrying: Carrying, far: FarSide
) -> None:
    """By the caller: the agent's question comes back, if it still stands."""
    far.on["SendMessage"] = [result({"task": task("input_required", "Which?")}), hang]
    far.on["GetTask"] = [result(task("input_required", "Which?"))]
    sent = carrying.does("ask")
    target = Target(far.url)
    assert carrying.carry(sent, target) == Carried.WAITING
    apply_event(sent.pk, Said(parts.message(Role.USER, [parts.text("The first.")])))
    left_alone(target, sent, lambda: far.wait_for("SendMessage", 2))
    assert carrying.carry(sent, target) == Carried.WAITING
    assert told(now_of(sent))[-2:] == [("working", ""), ("input_required", "Which?")]
    assert len(far.named("SendMessage")) == 2


def test_a_question_that_was_answered_is_not_taken_for_a_new_one(carrying: Carrying, far: FarSide) -> None:
    """A server that took the answer may still show the question for a while."""
    asked = task("input_required", "Which?")
    far.on["SendMessage"] = [result({"task": asked}), result({"task": asked})]
    far.on["GetTask"] = [result(asked), result(asked), result(task("completed", at=LATER))]
    sent = carrying.does("ask")
    target = Target(far.url)
    assert carrying.carry(sent, target) == Carried.WAITING
    apply_event(sent.pk, Said(parts.message(Role.USER, [parts.text("The first.")])))
    assert carrying.carry(sent, target) == Carried.ENDED
    assert now_of(sent).state == TaskState.COMPLETED
    second = far.named("SendMessage")[1].body["params"]["message"]
    assert (second["taskId"], second["contextId"]) == (TASK_ID, "far-context")
    assert second["parts"] == [{"text": "The first."}]


def test_what_its_caller_answers_is_sent_on_however_late(carrying: Carrying, far: FarSide) -> None:
    """The task counts as working from the answer on, and the agent's time begins anew with it."""
    far.on = {
        "SendMessage": [result({"task": task("input_required", "Which?")}), result({"task": task("completed")})],
        "GetTask": [result(task("input_required", "Which?"))],
    }
    sent = carrying.does("ask")
    assert carrying.carry(sent, Target(far.url, patience=60)) == Carried.WAITING
    RemoteTask.objects.filter(task=sent).update(left_at=cast.past(seconds=90))
    carrying.says(sent, "The first.")
    assert carrying.carry(sent, Target(far.url, patience=60)) == Carried.ENDED
    assert far.named("SendMessage")[1].body["params"]["message"]["parts"] == [{"text": "The first."}]
    assert now_of(sent).state == TaskState.COMPLETED


def test_an_answer_to_what_has_ended_there_meanwhile_ends_it_here(carrying: Carrying, far: FarSide) -> None:
    over = error(-32004, "The task is in a terminal state.")
    far.on["SendMessage"] = [result({"task": task("input_required", "Which?")}), over]
    far.on["GetTask"] = [result(task("failed", "Nobody answered.", at=LATER))]
    sent = carrying.does("ask")
    target = Target(far.url)
    carrying.carry(sent, target)
    apply_event(sent.pk, Said(parts.message(Role.USER, [parts.text("The first.")])))
    assert carrying.carry(sent, target) == Carried.ENDED
    done = now_of(sent)
    assert (done.error_code, done.error_message) == ("remote_failed", "Nobody answered.")


def test_a_status_that_is_dated_when_it_is_asked_for_is_no_news(carrying: Carrying, far: FarSide) -> None:
    looks = [result(task("working", at=f"2026-11-19T00:00:0{second}Z")) for second in (2, 3)]
    far.on = {"SendMessage": [result({"task": task("working")})], "GetTask": [*looks, result(task("completed"))]}
    sent = carrying.does("report")
    carrying.carry(sent, Target(far.url))
    assert told(now_of(sent)) == ["task", ("working", ""), ("completed", "")]


def test_a_sign_in_is_waited_for_without_its_caller(carrying: Carrying, far: FarSide) -> None:
    far.on = {
        "SendMessage": [result({"task": task("auth_required", "Sign in at the bank.")})],
        "GetTask": [result(task("auth_required", "Sign in at the bank.")), result(task("completed", at=LATER))],
    }
    sent = carrying.does("pay")
    assert carrying.carry(sent, Target(far.url)) == Carried.ENDED
    assert [one for one, _ in told(now_of(sent))[1:]] == ["auth_required", "completed"]


def test_who_lost_the_task_writes_nothing_more(carrying: Carrying, far: FarSide) -> None:
    def check(_task: Task) -> None:
        raise inbox.StaleLease("It is with another.")

    far.on = {"SendMessage": [result({"task": task("completed")})]}
    sent = carrying.does("report")
    with pytest.raises(inbox.StaleLease):
        run(lambda: carry(task_id=sent.pk, target=Target(far.url), check=check))
    assert not far.named("SendMessage")
    assert Task.objects.get(pk=sent.pk).state == TaskState.SUBMITTED


def test_of_two_that_carry_the_same_task_one_sends_it(carrying: Carrying, far: FarSide) -> None:
    """Both looked before either wrote down that the message leaves."""
    far.on["SendMessage"] = [hang]
    sent = carrying.does("report")
    target = Target(far.url)
    before = keeping.look(sent.pk, target)
    assert before is not None
    left_alone(target, sent, lambda: far.wait_for("SendMessage"))
    with pytest.raises(Elsewhere):
        keeping.intend(before, Interface(target.url, "1.0", "JSONRPC"), check=None)
