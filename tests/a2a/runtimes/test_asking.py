"""A program that ends with a question leaves its task to its caller, and another run goes on with the answer."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from a2a import cancelling, dispatching, endpoint_changes, following, parts, sending, sweeping
from a2a.choices import Role, TaskState
from a2a.models import Task
from nhi import actors
from nhi.actors import SYSTEM
from nhi.credentials import credentials
from supervisor import submitting
from supervisor.access import Caller
from supervisor.models import Agent, Execution
from supervisor.runner.service import Service
from supervisor.submitting import Wish
from tests.a2a.conftest import Stage
from tests.a2a.runtimes.conftest import Play, dispatched, sent, states, told, until_ended, until_told
from tests.supervisor.sessions import webs
from tests.supervisor.waiting import until, until_over
from tests.supervisor.workers import running

pytestmark = [
    pytest.mark.capability("A2A-07"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.both_databases,
]
Put = Callable[..., Agent]
EXAMPLE = "ask_back.py"
#: Asks whatever it is told, unless that is an answer: then it says what was said in the task, and its parameters.
ASKS = """#!/usr/bin/env python3
import json, os, sys
given = sys.stdin.read()
if "GATEHOUSE_CONVERSATION" not in os.environ:
    print("What is the word?", flush=True)
    sys.exit(79)
said = json.load(open(os.environ["GATEHOUSE_CONVERSATION"]))
print(json.dumps({"given": given, "roles": [one["role"] for one in said], "argv": sys.argv[1:]}))
"""


def says(stage: Stage, task: Task, *said: parts.Part) -> Execution:
    """The planner answers; the run that goes on."""
    caller = Caller(actors.identity(stage.planner))
    sending.say(caller=caller, task=task, message=parts.message(Role.USER, said))
    return dispatched(task)


def until_asked(task: Task) -> str:
    waiting = Task.objects.filter(pk=task.pk, state=TaskState.INPUT_REQUIRED)
    until(waiting.exists, f"the {task} waited for its caller")
    task.refresh_from_db()
    return parts.said_in(task.status_message)


def test_a_run_asks_and_another_goes_on_with_the_answer(
    open_stage: Stage, behind: Put, example: Callable[[str], str], runner: Service
) -> None:
    behind(executable_path=example(EXAMPLE))
    task = sent(open_stage, "Oslo")
    first = until_over(dispatched(task))
    assert until_asked(task) == "For how many days do you go to Oslo?\n"
    assert (first.status, first.exit_code) == ("success", 79)
    assert first.transitions.get(to_state="completed").reason == "It asks its caller for more."
    second = until_over(says(open_stage, task, parts.text("some")))
    assert until_asked(task) == "I need a number of days, such as 3.\n"
    third = says(open_stage, task, parts.text("4 days"))
    done = until_ended(task)
    assert (done.state, done.result) == (
        TaskState.COMPLETED,
        {"text": "For Oslo: 5 shirts, 5 pairs of socks, one coat.\n"},
    )
    assert states(done) == ["working", "input_required", "working", "input_required", "working", "completed"]
    assert [run.input for run in (first, second, third)] == ["Oslo", "some", "4 days"]
    assert len({first.pk, second.pk, third.pk}) == 3
    assert list(Execution.objects.values_list("task_id", flat=True)) == [task.pk] * 3
    until_over(third)


def test_a_task_that_waits_for_its_caller_is_left_alone(open_stage: Stage, behind: Put, runner: Service) -> None:
    agent = behind(ASKS)
    task = sent(open_stage)
    run = until_over(dispatched(task))
    until_asked(task)
    following.follow(run)
    sweeping.sweep()
    # Nor is it looked at again and again, in the place of others.
    assert not following._done().exists()
    dispatching.dispatch(agent.pk)
    now = Task.objects.get(pk=task.pk)
    assert (now.last_seq, now.state, Execution.objects.count()) == (task.last_seq, TaskState.INPUT_REQUIRED, 1)
    cancelling.cancel(actor=SYSTEM, task=now)
    dispatching.dispatch(agent.pk)
    assert Execution.objects.count() == 1


def test_who_goes_on_is_given_all_that_was_said(open_stage: Stage, behind: Put, runner: Service) -> None:
    """As it was said, and with the parameters of before; what may not be shown is masked in what it prints."""
    behind(ASKS, cli_args=["--tone", "{{ tone }}"])
    reply = open_stage.sends(input={"input": "Begin.", "parameters": {"tone": "dry"}})
    task = Task.objects.get(pk=reply.body["task_id"])
    until_over(dispatched(task))
    until_asked(task)
    run = says(open_stage, task, parts.text("password=hunter2secret"))
    done = until_ended(task)
    said = json.loads(done.result["text"])
    assert (said["roles"], said["argv"]) == (["ROLE_USER", "ROLE_AGENT", "ROLE_USER"], ["--tone", "dry"])
    assert "hunter2secret" not in str([done.result, *(event.body for event in task.events.all())])
    assert said["given"].startswith("password=")
    run = until_over(run)
    assert ("hunter2secret" in run.input, run.sealed_input) == (False, "")
    # Not all of what it was given is kept, so it is not run again by hand.
    assert submitting.wish_of(run) is None


def test_more_than_a_run_is_given_fails_its_task(
    open_stage: Stage, behind: Put, runner: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind(ASKS)
    task = sent(open_stage)
    until_over(dispatched(task))
    until_asked(task)
    monkeypatch.setattr(submitting, "LONGEST_CONVERSATION", 500)
    said = parts.message(Role.USER, [parts.text("Tree. " * 100)])
    sending.say(caller=Caller(actors.identity(open_stage.planner)), task=task, message=said)
    dispatching.dispatch_due()
    task.refresh_from_db()
    assert (task.state, task.error_code) == (TaskState.FAILED, "invalid_parameters")
    assert "More than 4 MiB was said in it." in task.error_message
    assert Execution.objects.count() == 1


@pytest.mark.parametrize(
    ("script", "most", "code", "why"),
    [
        ("#!/bin/sh\nexit 79\n", 1000, "agent_error", "asked nothing"),
        ("#!/bin/sh\nhead -c 2000 /dev/zero | tr '\\0' x\nexit 79\n", 1000, "output_too_large", "1000"),
    ],
)
def test_a_question_that_is_none_fails_its_task(
    open_stage: Stage, behind: Put, runner: Service, script: str, most: int, code: str, why: str
) -> None:
    behind(script)
    endpoint_changes.change(actor=SYSTEM, identity=open_stage.writer, max_output_size=most)
    task = sent(open_stage)
    run = dispatched(task)
    done = until_ended(task)
    assert (done.state, done.error_code) == (TaskState.FAILED, code)
    assert why in done.error_message
    until_over(run)


@pytest.mark.capability("SUP-06")
def test_where_nobody_could_answer_it_is_a_failure(behind: Put, runner: Service) -> None:
    agent = behind(ASKS)
    run = until_over(submitting.submit(caller=Caller(SYSTEM), agent=agent, wish=Wish(input="x")).execution)
    assert (run.status, run.error_category, run.exit_code) == ("failure", "AgentError", 79)
    assert run.error_message == ("It asked something (exit code 79), and nobody can answer: this run is for no task.")


def test_a_question_may_be_data(open_stage: Stage, behind: Put, runner: Service) -> None:
    ask = '{"jsonrpc": "2.0", "id": 1, "result": {"choose": ["red", "blue"]}}'
    behind(f"#!/bin/sh\necho '{ask}'\nexit 79\n", input_pattern="json-rpc", output_pattern="json-rpc")
    task = sent(open_stage)
    until_over(dispatched(task))
    until_asked(task)
    assert task.status_message is not None
    assert task.status_message["parts"] == [{"data": {"choose": ["red", "blue"]}, "mediaType": "application/json"}]


def test_what_was_told_before_the_question_is_closed_and_replaced(
    open_stage: Stage, behind: Put, runner: Service, play: Play
) -> None:
    again = "if 'GATEHOUSE_CONVERSATION' in os.environ:"
    asks = "else: say('Which?'); hold('a'); say('Red or blue?', end=''); sys.exit(79)"
    behind(play.script(again, "    say('Red.'); hold('b')", asks))
    task = sent(open_stage)
    first = dispatched(task)
    until_told(task, "Which?\n")
    play.release("a")
    assert until_asked(task) == "Which?\nRed or blue?"
    asked = [("Which?\n", False, False), ("Red or blue?", True, True)]
    assert told(task) == asked
    until_over(first)
    second = says(open_stage, task, parts.text("Red"))
    until_told(task, *(text for text, _, _ in asked), "Red.\n")
    play.release("b")
    assert until_ended(task).result == {"text": "Red.\n"}
    assert told(task) == [*asked, ("Red.\n", False, False), ("", True, True)]
    until_over(second)


@pytest.mark.capability("A2A-02", "CON-02")
def test_its_page_says_what_it_asks_and_takes_the_answer(open_stage: Stage, behind: Put, runner: Service) -> None:
    behind(ASKS)
    task = sent(open_stage)
    run = until_over(dispatched(task))
    until_asked(task)
    client = Client()
    client.force_login(open_stage.mara, backend="django.contrib.auth.backends.ModelBackend")
    page = client.get(f"/admin/a2a/task/{task.pk}/", follow=True).content.decode()
    assert "What is the word?" in page
    assert "Needs input" in page
    assert f"{task.pk}/reply/" in page
    assert str(run.pk) in page
    said = parts.message(Role.USER, [parts.text("Tree.")])
    sending.say(caller=Caller(actors.identity(open_stage.planner)), task=task, message=said)
    page = client.get(f"/admin/a2a/task/{task.pk}/", follow=True).content.decode()
    assert "It was answered. It waits for a place in the queue of runs." in page
    dispatched(task)
    until_over(Execution.objects.latest("number"))


@pytest.mark.xdist_group("house")
@pytest.mark.capability("A2A-05")
def test_a_client_hears_the_question_and_answers_it(
    open_stage: Stage, behind: Put, example: Callable[[str], str], tmp_path: Path, broker: str
) -> None:
    """Over HTTP, by a web process, of runs in a worker process."""
    behind(executable_path=example(EXAMPLE))
    token = credentials.issue(actor=SYSTEM, holder=open_stage.planner).token
    with webs.serving(tmp_path, broker, token) as web, running(tmp_path, broker):
        heard = list(streamed(web.port, token, {"parts": [{"text": "Oslo"}]}))
        asked = heard[-1]["statusUpdate"]
        assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        assert asked["status"]["message"]["parts"] == [{"text": "For how many days do you go to Oslo?\n"}]
        heard = list(streamed(web.port, token, {"parts": [{"text": "2"}], "taskId": asked["taskId"]}))
        assert heard[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
        made = [one["artifactUpdate"]["artifact"]["parts"] for one in heard if "artifactUpdate" in one]
        assert made == [[{"text": "For Oslo: 3 shirts, 3 pairs of socks, one coat.\n"}]]
        for run in Execution.objects.all():
            until_over(run)


def streamed(port: int, token: str, message: dict[str, Any]) -> Iterator[Any]:
    """What is told of a message until its stream closes."""
    said = {"messageId": "m", "role": "ROLE_USER", **message}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": said}}
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "A2A-Version": "1.0"}
    with closing(HTTPConnection("127.0.0.1", port, timeout=30)) as link:
        link.request("POST", "/agents/writer/", json.dumps(asked), headers)
        for line in link.getresponse():
            if line.startswith(b"data:"):
                yield json.loads(line[5:])["result"]
