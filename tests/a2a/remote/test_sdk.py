"""Tasks carried to a server that the official SDK makes, in every version and binding."""

from typing import Any

import pytest

from a2a import parts, showing
from a2a.changes import Said
from a2a.choices import Role, TaskState
from a2a.models import RemoteTask, Task
from a2a.remote import Carried, Credential, Target
from a2a.writer import apply_event
from tests.a2a.remote.conftest import Carrying, now_of, told
from tests.services.peers import PeerAgent

pytestmark = pytest.mark.capability("A2A-07")
WAYS = [(version, binding) for version in ("1.0", "0.3") for binding in ("JSONRPC", "HTTP+JSON", "GRPC")]
REPORT = [
    "task",
    ("working", "Reading the minutes."),
    ("report", "All ", False),
    ("report", "agreed.", True),
    ("completed", "Done."),
]


@pytest.fixture(params=WAYS, ids=[f"{version} {binding}" for version, binding in WAYS])
def way(request: Any) -> dict[str, Any]:
    version, binding = request.param
    return {"version": version, "binding": binding}


@pytest.fixture
def plain(plain_agent: PeerAgent, way: dict[str, Any]) -> Target:
    return Target(plain_agent.url, credential=Credential("Authorization", "Bearer s3cret"), **way)


@pytest.fixture
def streaming(streaming_agent: PeerAgent, way: dict[str, Any]) -> Target:
    return Target(streaming_agent.url, **way)


def artifacts(task: Task) -> dict[str, Any]:
    return {made["artifactId"]: made["parts"] for made in showing.made(task.pk)}


def test_a_stream_is_relayed_event_by_event_under_our_ids(carrying: Carrying, streaming: Target) -> None:
    task = carrying.does("report")
    assert carrying.carry(task, streaming) == Carried.ENDED
    done = now_of(task)
    assert told(done) == REPORT
    assert done.state == TaskState.COMPLETED
    assert done.result == {"parts": [{"text": "All "}, {"text": "agreed."}]}
    row = done.remote
    assert (row.over, row.leaving, row.streaming) == (True, None, True)
    for event in done.events.all():
        assert row.remote_task_id not in str(event.body)
        assert row.remote_context_id not in str(event.body)


def test_without_streams_it_is_asked_for_until_it_has_ended(carrying: Carrying, plain: Target) -> None:
    task = carrying.does("report")
    assert carrying.carry(task, plain) == Carried.ENDED
    done = now_of(task)
    assert (done.state, done.remote.streaming) == (TaskState.COMPLETED, False)
    assert done.result == {"parts": [{"text": "All "}, {"text": "agreed."}]}


def test_a_question_waits_for_the_caller_and_the_answer_goes_to_the_same_task(
    carrying: Carrying, streaming: Target, streaming_agent: PeerAgent
) -> None:
    task = carrying.does("ask")
    assert carrying.carry(task, streaming) == Carried.WAITING
    assert told(now_of(task))[-1] == ("input_required", "Which of the two?")
    apply_event(task.pk, Said(parts.message(Role.USER, [parts.text("answer")])))
    assert carrying.carry(task, streaming) == Carried.ENDED
    done = now_of(task)
    assert done.state == TaskState.COMPLETED
    assert artifacts(done) == {"choice": [{"text": "The second."}]}
    first, second = streaming_agent.notes("began")
    assert first["contextId"] == second["contextId"] == done.remote.remote_context_id


def test_the_answer_reaches_a_server_without_streams(carrying: Carrying, plain: Target) -> None:
    task = carrying.does("ask")
    assert carrying.carry(task, plain) == Carried.WAITING
    apply_event(task.pk, Said(parts.message(Role.USER, [parts.text("answer")])))
    assert carrying.carry(task, plain) == Carried.ENDED
    assert artifacts(now_of(task)) == {"choice": [{"text": "The second."}]}


def test_a_message_for_an_answer_is_the_result(carrying: Carrying, streaming: Target, plain: Target) -> None:
    for target in (streaming, plain):
        task = carrying.does("talk")
        assert carrying.carry(task, target) == Carried.ENDED
        done = now_of(task)
        assert (done.state, done.result) == (TaskState.COMPLETED, {"text": "Good day."})


def test_a_bad_end_says_why(carrying: Carrying, streaming: Target) -> None:
    ends = []
    for what in ("fail", "reject"):
        task = carrying.does(what)
        carrying.carry(task, streaming)
        done = now_of(task)
        ends.append((done.state, done.error_code, done.error_message))
    assert ends == [
        (TaskState.FAILED, "remote_failed", "There are no minutes."),
        (TaskState.REJECTED, "rejected", "Not my trade."),
    ]


def test_what_is_sent_arrives_as_it_was_written(
    carrying: Carrying, streaming: Target, streaming_agent: PeerAgent
) -> None:
    """Also what may not be shown, and what a version has no word for."""
    secret = "ghp_" + "a" * 36
    file = {"raw": "AAE=", "mediaType": "image/png", "filename": "a.png"}
    said = parts.data({"do": "report", "token": secret}), parts.text("Please."), {"data": [1, "two"]}, file
    task = carrying.sent(*said)
    assert secret not in str(task.input)
    carrying.carry(task, streaming)
    (began,) = streaming_agent.notes("began")
    assert began["said"][0]["data"] == {"do": "report", "token": secret}
    assert [part.get("text", part.get("data")) for part in began["said"][1:3]] == ["Please.", [1, "two"]]
    assert began["said"][3] == file
    first = task.messages.get(position=1)
    assert began["messageId"] == first.body["messageId"]


def test_what_an_agent_makes_is_kept_as_it_is(carrying: Carrying, streaming: Target) -> None:
    task = carrying.does("files")
    carrying.carry(task, streaming)
    pages, numbers, picture = artifacts(now_of(task))["files"]
    assert (pages["data"], numbers["data"]) == ({"pages": 3}, [1, 2])
    assert (picture["mediaType"], picture["filename"], picture["raw"]) == ("image/png", "a.png", "AAE=")


def test_the_next_task_of_a_context_goes_on_with_the_agents_own(
    carrying: Carrying, streaming: Target, streaming_agent: PeerAgent
) -> None:
    task = carrying.does("report", context_id="our-context")
    carrying.carry(task, streaming)
    carrying.carry(carrying.does("report", context_id="our-context"), streaming)
    carrying.carry(carrying.does("report"), streaming)
    first, second, third = [note["contextId"] for note in streaming_agent.notes("began")]
    assert first == second != third
    assert "our-context" not in (first, third)
    assert RemoteTask.objects.get(task=task).remote_context_id == first
