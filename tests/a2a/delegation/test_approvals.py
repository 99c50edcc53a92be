"""A task whose agent waits for a person's yes to a call says so, and goes on once it is decided."""

from typing import Any

import pytest

from a2a import parts, sending, sweeping, waiting
from a2a.choices import Role, TaskState
from a2a.models import AwaitedCall, Task
from common.db import clock
from mcp.approvals import decisions
from mcp.models import CallApproval
from nhi import actors
from nhi.models import InvocationLog
from supervisor.access import Caller
from tests.a2a import rows
from tests.a2a.delegation.town import WAYS, Line, line
from tests.mcp.peer import Peer
from tests.mcp.scene import Scene, scene
from tests.nhi import cast

pytestmark = [
    pytest.mark.capability("NHI-14"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def made(server: Peer) -> Scene:
    return scene(server.url, agents=[], requires_approval=True)


@pytest.fixture
def asked(made: Scene) -> Line:
    found = line(made, ["call"], holds="b")
    rows.claimed(found.tasks[0])
    return found


def task(of: Line) -> Task:
    return Task.objects.get(pk=of.tasks[-1].pk)


def said(of: Line) -> str:
    message: Any = task(of).status_message
    return str(message["parts"][0]["text"])


def decide(approval: CallApproval, verb: Any = decisions.approve) -> None:
    verb(actor=cast.acting("tom", "approver"), approval=approval, reason="Looked at it")


@pytest.mark.parametrize("way", WAYS)
def test_it_says_which_call_waits_until_somebody_decides(asked: Line, way: str) -> None:
    assert asked.calls(way) == "approval_required"
    approval = CallApproval.objects.get()
    assert task(asked).state == TaskState.AUTH_REQUIRED
    assert str(approval.pk) in said(asked)
    assert "peer__echo" in said(asked)
    assert waiting.of(task(asked)) == approval
    assert approval.context["task_id"] == str(asked.tasks[0].pk)
    assert approval.context["asked_by"] == "a"
    decide(approval)
    assert task(asked).state == TaskState.WORKING
    assert said(asked) == "A person approved the call of peer__echo."
    assert asked.calls("rest") == "", "the permit is for the call, whichever way it comes"
    assert InvocationLog.objects.latest("timestamp", "id").details["approval_id"] == str(approval.pk)


def test_its_caller_is_not_asked_for_what_an_approver_decides(asked: Line) -> None:
    asked.calls("rest")
    assert task(asked).state == TaskState.AUTH_REQUIRED
    assert not Task.objects.waiting().exists()
    AwaitedCall.objects.all().delete()
    assert Task.objects.waiting().get() == task(asked)


def test_a_no_lets_it_go_on_too(asked: Line) -> None:
    asked.calls("rest")
    decide(CallApproval.objects.get(), decisions.refuse)
    assert (task(asked).state, said(asked)) == (TaskState.WORKING, "A person refused the call of peer__echo.")


def test_of_several_calls_the_last_one_lets_it_go_on(asked: Line) -> None:
    for number in range(2):
        asked.calls("rest", {"n": number})
    events = task(asked).last_seq
    asked.calls("rest", {"n": 0})
    assert task(asked).last_seq == events, "it is told once"
    first, second = CallApproval.objects.order_by("asked_at")
    decide(first)
    assert task(asked).state == TaskState.AUTH_REQUIRED
    decide(second)
    assert task(asked).state == TaskState.WORKING
    assert not AwaitedCall.objects.exists()


def test_what_nobody_decides_is_found_by_the_clock(asked: Line) -> None:
    asked.calls("rest")
    before = task(asked).lease_until
    sweeping.sweep()
    assert task(asked).state == TaskState.AUTH_REQUIRED
    CallApproval.objects.update(expires_at=clock.database_now())
    sweeping.sweep()
    assert (task(asked).state, said(asked)) == (
        TaskState.WORKING, "Nobody decided about the call of peer__echo in time.",
    )  # fmt: skip
    assert before is not None
    assert task(asked).lease_until > before, "its worker has a whole lease again"


def test_who_waits_for_something_else_is_left_alone(asked: Line) -> None:
    rows.moved(asked.tasks[0], TaskState.INPUT_REQUIRED, "Which of the two?")
    asked.calls("rest")
    assert (task(asked).state, said(asked)) == (TaskState.INPUT_REQUIRED, "Which of the two?")
    decide(CallApproval.objects.get())
    assert task(asked).state == TaskState.INPUT_REQUIRED


def test_a_question_of_its_agent_is_answered_though_a_call_waits(asked: Line) -> None:
    asked.calls("rest")
    rows.moved(asked.tasks[0], TaskState.INPUT_REQUIRED, "Which of the two?")
    asker = task(asked).source
    assert asker is not None
    message = parts.message(Role.USER, [parts.text("The first.")])
    sending.say(caller=Caller(actors.identity(asker)), task=task(asked), message=message)
    assert task(asked).state == TaskState.WORKING


def test_its_agent_may_end_it_without_the_call(asked: Line) -> None:
    asked.calls("rest")
    rows.moved(asked.tasks[0], TaskState.COMPLETED)
    decide(CallApproval.objects.get())
    assert task(asked).state == TaskState.COMPLETED
    assert not AwaitedCall.objects.exists()


def test_a_call_in_no_task_moves_none(asked: Line) -> None:
    outcome = asked.scene.call("echo", agent=asked.token(asked.last))
    assert outcome.status == "pending_approval"
    assert task(asked).state == TaskState.WORKING


def test_a_principal_whose_grant_wants_a_yes_wants_it_of_whoever_acts_for_it(server: Peer) -> None:
    made = scene(server.url, agents=[])
    asked = line(made, ["delegate"], holds="b")
    rows.claimed(asked.tasks[0])
    cast.tool_grant(asked.who[0], made.tool().identity, requires_approval=True)
    assert asked.calls("rest") == "approval_required"
    decide(CallApproval.objects.get())
    assert asked.calls("rest") == ""
