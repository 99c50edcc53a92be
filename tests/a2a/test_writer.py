"""One writer: legal moves, numbers without gaps, and ends that stay, whoever writes at once."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction

from a2a import cancelling, inbox, parts, showing, writer
from a2a.changes import Made, Said, Status
from a2a.choices import TERMINAL, TRANSITIONS, WORDS, Role, TaskState
from a2a.models import Task, TaskEvent
from a2a.writer import TaskEnded
from common.errors import Conflict, InvalidTransition
from nhi.actors import SYSTEM
from tests.a2a.conftest import Stage

pytestmark = [pytest.mark.capability("A2A-02"), pytest.mark.both_databases]
#: How to come to a state from the first.
WAYS = {
    TaskState.SUBMITTED: [],
    **{state: [TaskState.WORKING, state] for state in TaskState if state not in ("submitted", "working")},
    TaskState.WORKING: [TaskState.WORKING],
}


@pytest.mark.parametrize("old", TaskState)
def test_a_move_is_legal_or_changes_nothing(make_task: Callable[..., Task], old: TaskState) -> None:
    for new in TaskState:
        task = make_task()
        for state in WAYS[old]:
            writer.apply_event(task.pk, Status(state))
        moved_or_same(task, old, new)


def moved_or_same(task: Task, old: TaskState, new: TaskState) -> None:
    before = Task.objects.get(pk=task.pk)
    if new in TRANSITIONS[old]:
        writer.apply_event(task.pk, Status(new))
        assert Task.objects.get(pk=task.pk).state == new
        return
    with pytest.raises(TaskEnded if old in TERMINAL else InvalidTransition):
        writer.apply_event(task.pk, Status(new))
    after = Task.objects.get(pk=task.pk)
    assert (after.state, after.last_seq, after.state_at) == (before.state, before.last_seq, before.state_at)


def test_every_state_has_its_word() -> None:
    assert set(WORDS) == set(TaskState)
    assert {str(WORDS[state]) for state in TERMINAL} == {"completed", "failed", "cancelled"}


def test_what_is_said_becomes_history(task: Task) -> None:
    first = parts.message(Role.AGENT, [parts.text("one")])
    writer.apply_event(task.pk, Status(TaskState.WORKING, first), Status(TaskState.INPUT_REQUIRED))
    writer.apply_event(task.pk, Said(parts.message(Role.USER, [parts.text("more")])))
    said = [(one.role, parts.plain(one.body["parts"])) for one in task.messages.all()[1:]]
    assert said == [("agent", {"text": "one"}), ("user", {"text": "more"})]


def test_what_is_made_in_pieces_is_one(task: Task) -> None:
    piece = {"artifactId": "a", "name": "story", "parts": [parts.text("Once ")]}
    rest = {"artifactId": "a", "name": "story", "parts": [parts.text("upon")]}
    other = {"artifactId": "b", "name": "data", "parts": [parts.data([1])]}
    writer.apply_event(task.pk, Status(TaskState.WORKING), Made(piece, last=False))
    writer.apply_event(task.pk, Made(rest, append=True), Made(other), Status(TaskState.COMPLETED))
    assert [len(one["parts"]) for one in showing.made(task.pk)] == [2, 1]
    result = Task.objects.get(pk=task.pk).result
    assert [one["name"] for one in result["artifacts"]] == ["story", "data"]
    updates = [event.body["artifactUpdate"] for event in TaskEvent.objects.filter(task=task, kind="artifact")]
    assert [(one["append"], one["lastChunk"]) for one in updates] == [(False, False), (True, True), (False, True)]


def test_numbers_have_no_gaps(task: Task) -> None:
    writer.apply_event(task.pk, Status(TaskState.WORKING), Status(TaskState.WORKING))
    with pytest.raises(InvalidTransition):
        writer.apply_event(task.pk, Status(TaskState.WORKING), Status(TaskState.SUBMITTED))
    writer.apply_event(task.pk, Status(TaskState.FAILED, error_code="x"))
    events = list(TaskEvent.objects.filter(task=task))
    assert [event.seq for event in events] == [1, 2, 3, 4]
    assert [event.at for event in events] == sorted(event.at for event in events)
    assert Task.objects.get(pk=task.pk).last_seq == 4


def test_an_end_is_final_whatever_was_read_before(task: Task) -> None:
    with transaction.atomic():
        stale = writer.locked(task.pk)
        writer.apply_event(task.pk, Status(TaskState.CANCELED))
        with pytest.raises(TaskEnded):
            writer.write(stale, Status(TaskState.WORKING))
        transaction.set_rollback(False)
    assert Task.objects.get(pk=task.pk).state == "canceled"


def at_once(*verbs: Callable[[], object]) -> list[object]:
    """What each came to, all of them begun together; refusals are what they raised."""

    def run(verb: Callable[[], object]) -> object:
        try:
            return verb()
        except Conflict as refused:
            return refused
        finally:
            connection.close()

    with ThreadPoolExecutor(len(verbs)) as pool:
        return list(pool.map(run, verbs))


@pytest.mark.parametrize("_round", range(5))
def test_of_complete_and_cancel_one_wins(open_stage: Stage, _round: int) -> None:
    task = Task.objects.get(pk=open_stage.sent())
    token = inbox.claim(task=task, lease_seconds=60).lease_token
    came_to = at_once(
        lambda: inbox.complete(task=task, lease_token=token, result={"a": 1}),
        lambda: cancelling.cancel(actor=SYSTEM, task=task),
    )
    refused = [one for one in came_to if isinstance(one, Conflict)]
    assert len(refused) == 1
    after = Task.objects.get(pk=task.pk)
    assert after.state == ("canceled" if came_to[0] in refused else "completed")
    assert after.result == (None if after.state == "canceled" else {"a": 1})
    last = TaskEvent.objects.filter(task=task).last()
    assert last is not None
    assert last.seq == after.last_seq


def test_of_many_who_claim_one_gets_it(open_stage: Stage) -> None:
    task = Task.objects.get(pk=open_stage.sent())
    came_to = at_once(*[lambda: inbox.claim(task=task, lease_seconds=60)] * 6)
    assert sum(isinstance(one, inbox.Claimed) for one in came_to) == 1
    assert Task.objects.get(pk=task.pk).claims == 1


@pytest.mark.capability("A2A-11")
def test_who_sends_the_same_at_once_gets_one_task(open_stage: Stage) -> None:
    sent = at_once(*[lambda: open_stage.sends(key="k-1").body["task_id"]] * 6)
    assert len(set(sent)) == 1
    assert Task.objects.count() == 1


@pytest.mark.capability("A2A-08")
def test_the_last_task_of_an_hour_is_sent_once(open_stage: Stage) -> None:
    type(open_stage.grant).objects.update(max_calls_per_hour=2)
    came_to = at_once(*[lambda: open_stage.sends().status] * 6)
    assert sorted(came_to, key=str) == [201, 201, 429, 429, 429, 429]
