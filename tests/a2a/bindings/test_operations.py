"""Operations over JSON-RPC and over HTTP, in 1.0: what is sent is a task, and its caller sees it to its end."""

import asyncio
from typing import Any

import pytest

from a2a import parts, writer
from a2a.changes import Made, Status
from a2a.choices import TaskState
from a2a.models import Task
from tests.a2a.bindings.conftest import AT_ONCE, SENT, Agent, heard, in_loop, run_in_thread, says
from tests.a2a.conftest import Stage

pytestmark = [pytest.mark.capability("A2A-03", "A2A-05"), pytest.mark.both_databases]


def done(task_id: str) -> Task:
    made = Made(parts.artifact([parts.text("All agreed.")]))
    return writer.apply_event(
        Task.objects.get(pk=task_id).pk, Status(TaskState.WORKING), made, Status(TaskState.COMPLETED)
    )


def test_a_task_is_sent_read_listed_and_cancelled(agent: Agent) -> None:
    async def whole() -> None:
        task = (await agent.call("SendMessage", AT_ONCE))["task"]
        assert task["status"]["state"] == "TASK_STATE_SUBMITTED"
        assert [one["parts"] for one in task["history"]] == [[{"text": "Summarise this."}]]
        assert task["history"][0]["taskId"] == task["id"]
        read = await agent.call("GetTask", {"id": task["id"], "historyLength": 0})
        assert (read["id"], read["history"]) == (task["id"], [])
        listed = await agent.call("ListTasks")
        assert [one["id"] for one in listed["tasks"]] == [task["id"]]
        assert "artifacts" not in listed["tasks"][0]
        assert (listed["nextPageToken"], listed["pageSize"], listed["totalSize"]) == ("", 50, 1)
        ended = await agent.call("CancelTask", {"id": task["id"]})
        assert ended["status"]["state"] == "TASK_STATE_CANCELED"
        assert await agent.fault("CancelTask", {"id": task["id"]}) == (200, -32002)

    in_loop(whole())


def test_the_http_binding_does_the_same(agent: Agent) -> None:
    async def whole() -> None:
        sent = await agent.rest("POST", "message:send", AT_ONCE)
        task = (await sent.json())["task"]
        assert (sent.status, sent.headers["content-type"]) == (200, "application/json")
        read = await agent.rest("GET", f"tasks/{task['id']}", query="historyLength=0")
        assert (await read.json())["history"] == []
        listed = await agent.rest(
            "GET", "tasks", query="pageSize=1&status=TASK_STATE_SUBMITTED", accept="application/a2a+json"
        )
        assert listed.headers["content-type"] == "application/a2a+json"
        assert (await listed.json())["totalSize"] == 1
        cancelled = await agent.rest("POST", f"tasks/{task['id']}:cancel")
        assert (await cancelled.json())["status"]["state"] == "TASK_STATE_CANCELED"
        again = await agent.rest("POST", f"tasks/{task['id']}:cancel", {})
        told = (await again.json())["error"]
        assert (again.status, told["status"], told["details"][0]["reason"]) == (
            400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE",
        )  # fmt: skip

    in_loop(whole())


def test_a_send_waits_for_the_end(agent: Agent) -> None:
    async def whole() -> None:
        waiting = asyncio.create_task(agent.call("SendMessage", SENT))
        task_id = await first_task()
        await run_in_thread(lambda: done(task_id))
        task = (await waiting)["task"]
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        assert task["artifacts"][0]["parts"] == [{"text": "All agreed."}]

    in_loop(whole())


def test_who_is_asked_back_answers_and_the_task_goes_on(agent: Agent) -> None:
    async def whole() -> None:
        waiting = asyncio.create_task(agent.call("SendMessage", SENT))
        task_id = await first_task()
        await run_in_thread(lambda: says(task_id, TaskState.INPUT_REQUIRED, "Which of the two?"))
        task = (await waiting)["task"]
        assert task["status"]["message"]["parts"] == [{"text": "Which of the two?"}]
        more = {**SENT["message"], "taskId": task_id, "parts": [{"text": "The first."}]}
        going_on = asyncio.create_task(agent.call("SendMessage", {"message": more}))
        await until(lambda: Task.objects.get(pk=task_id).state == TaskState.WORKING)
        await run_in_thread(lambda: says(task_id, TaskState.COMPLETED))
        task = (await going_on)["task"]
        said = [one["parts"][0]["text"] for one in task["history"]]
        assert said == ["Summarise this.", "The first.", "Which of the two?"] or said[0] == "Summarise this."
        assert {"The first.", "Which of the two?"} <= set(said)
        # What is over takes no message, and what never was neither.
        assert await agent.fault("SendMessage", {"message": more}) == (200, -32004)
        wrong = {**more, "contextId": "another"}
        assert await agent.fault("SendMessage", {"message": wrong}) == (200, -32602)
        absent = {**more, "taskId": "00000000-0000-4000-8000-000000000000"}
        assert await agent.fault("SendMessage", {"message": absent}) == (200, -32001)

    in_loop(whole())


def test_a_stream_tells_every_event_once_and_ends_with_the_task(agent: Agent) -> None:
    async def whole() -> None:
        answer = await agent.rpc("SendStreamingMessage", SENT)
        assert answer.headers["content-type"] == "text/event-stream"
        task_id = await first_task()
        await run_in_thread(lambda: done(task_id))
        events = await heard(answer)
        told = [next(iter(one.data["result"])) for one in events]
        assert told == ["task", "statusUpdate", "artifactUpdate", "statusUpdate"]
        assert [one.id for one in events] == ["1", "2", "3", "4"]
        assert {one.data["id"] for one in events} == {7}

    in_loop(whole())


def test_a_stream_is_taken_up_where_it_was_left(agent: Agent) -> None:
    async def whole() -> None:
        task_id = (await agent.call("SendMessage", AT_ONCE))["task"]["id"]
        first = await agent.rpc("SubscribeToTask", {"id": task_id})
        events = first.events()
        assert (await anext(events)).id == "1"
        await run_in_thread(lambda: says(task_id, TaskState.WORKING))
        assert (await anext(events)).id == "2"
        await first.leave()
        await run_in_thread(lambda: done_from_working(task_id))
        again = await agent.rpc("SubscribeToTask", {"id": task_id}, last_event_id="2")
        assert [one.id for one in await heard(again)] == ["3", "4"]
        assert await agent.fault("SubscribeToTask", {"id": task_id}, last_event_id="4") == (200, -32004)
        assert await agent.fault("SubscribeToTask", {"id": task_id}) == (200, -32004)

    in_loop(whole())


def test_a_stream_of_a_send_ends_where_the_agent_asks_back(agent: Agent) -> None:
    async def whole() -> None:
        answer = await agent.rest("POST", "message:stream", SENT)
        task_id = await first_task()
        await run_in_thread(lambda: says(task_id, TaskState.INPUT_REQUIRED, "Which?"))
        assert [next(iter(one.data)) for one in await heard(answer)] == ["task", "statusUpdate"]
        # One that only follows stays until the end.
        following = await agent.rest("GET", f"tasks/{task_id}:subscribe")
        await run_in_thread(lambda: says(task_id, TaskState.REJECTED))
        assert [one.id for one in await heard(following)] == ["2", "3"]

    in_loop(whole())


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"[]", -32600),
        (b"7", -32600),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "GetTask"}', -32600),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "GetTask"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "NoSuch"}', -32601),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": []}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {}}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": {"parts": []}}}', -32602),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told_in_the_protocols_words(agent: Agent, body: bytes, code: int) -> None:
    async def ask() -> Any:
        answer = await agent.ask(
            "POST", "/agents/writer", agent.token, "", body, content_type="application/json", a2a_version="1.0"
        )
        assert answer.status == 200
        return await answer.json()

    told = in_loop(ask())
    assert told["error"]["code"] == code
    assert told["error"]["data"][0]["domain"] == "a2a-protocol.org"


def test_every_problem_is_told_with_its_place(agent: Agent) -> None:
    wrong = {
        "message": {"role": "ROLE_AGENT", "parts": [{"text": "a", "url": "b"}, {"raw": "%"}]},
        "configuration": {"historyLength": -1},
    }

    async def ask() -> Any:
        return await (await agent.rpc("SendMessage", wrong)).json()

    violations = in_loop(ask())["error"]["data"][1]["fieldViolations"]
    assert [one["field"] for one in violations] == [
        "message.messageId", "message.parts[0]", "message.parts[1].raw", "message.role", "configuration.historyLength",
    ]  # fmt: skip


def test_a_version_is_asked_for_by_name(agent: Agent) -> None:
    async def whole() -> None:
        assert await agent.fault("GetTask", {"id": "x"}, version="") == (200, -32009)
        assert await agent.fault("GetTask", {"id": "x"}, version="2.0") == (200, -32009)
        asked = await agent.ask(
            "POST", "/agents/writer/", agent.token, "A2A-Version=1.0",
            b'{"jsonrpc": "2.0", "id": 1, "method": "ListTasks"}', content_type="application/json",
        )  # fmt: skip
        assert "result" in await asked.json()
        refused = await agent.rest("GET", "tasks", a2a_version="0.3")
        assert (refused.status, (await refused.json())["error"]["details"][0]["reason"]) == (
            400,
            "VERSION_NOT_SUPPORTED",
        )

    in_loop(whole())


def test_other_methods_types_and_paths_are_refused(agent: Agent) -> None:
    async def whole() -> None:
        answer = await agent.rest("GET", "jsonrpc")
        assert (answer.status, answer.headers["allow"]) == (405, "POST")
        answer = await agent.rest("DELETE", "message:send")
        assert (answer.status, answer.headers["allow"]) == (405, "POST")
        assert (await agent.rest("GET", "nothing/here")).status == 404
        text = await agent.rest("POST", "message:send", "no JSON", content_type="text/plain")
        told = (await text.json())["error"]
        assert (text.status, told["code"], told["status"], told["details"][0]["reason"]) == (
            415, 415, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED",
        )  # fmt: skip
        old = await agent.rest("POST", "v1/message:send", "no JSON", content_type="text/plain", a2a_version="")
        assert (old.status, (await old.json())["error"]) == (400, "ContentTypeNotSupportedError")
        over_rpc = await agent.rpc("SendMessage", SENT, content_type="text/plain")
        assert (over_rpc.status, (await over_rpc.json())["error"]["code"]) == (200, -32005)
        large = await agent.ask(
            "POST", "/agents/writer/", agent.token, "", b" " * (10 * 1024 * 1024 + 1), content_type="application/json"
        )
        assert large.status == 413

    in_loop(whole())


async def until(fact: Any) -> Any:
    """The first thing that is true, asked of the database by a thread of its own."""
    while not (found := await run_in_thread(fact)):
        await asyncio.sleep(0.01)
    return found


async def first_task() -> str:
    return str(await until(lambda: Task.objects.values_list("pk", flat=True).first()))


def done_from_working(task_id: str) -> Task:
    made = Made(parts.artifact([parts.text("All agreed.")]))
    return writer.apply_event(Task.objects.get(pk=task_id).pk, made, Status(TaskState.COMPLETED))


def test_a_message_may_be_the_answer(agent: Agent) -> None:
    async def whole() -> None:
        waiting = asyncio.create_task(agent.call("SendMessage", SENT))
        task_id = await first_task()
        await run_in_thread(lambda: answered(agent.stage, task_id))
        told = await waiting
        assert [part["text"] for part in told["message"]["parts"]] == ["Thursday."]
        assert (told["message"]["role"], told["message"]["taskId"]) == ("ROLE_AGENT", task_id)
        # Whoever asks for the task later finds that it is one.
        assert (await agent.call("GetTask", {"id": task_id}))["status"]["message"] == told["message"]

    in_loop(whole())


def test_an_answer_to_a_question_comes_to_the_worker(agent: Agent) -> None:
    stage = agent.stage

    async def whole() -> None:
        task_id = (await agent.call("SendMessage", AT_ONCE))["task"]["id"]
        token = await run_in_thread(lambda: stage.claimed(task_id))
        await run_in_thread(lambda: stage.tells(task_id, "ask", lease_token=token, message="Which?"))
        more = {**SENT["message"], "taskId": task_id, "parts": [{"text": "The first."}]}
        await agent.call("SendMessage", {"message": more, "configuration": {"returnImmediately": True}})
        claimed = await run_in_thread(lambda: stage.claims(task_id))
        assert claimed.body["message"]["parts"] == [{"text": "The first."}]
        assert claimed.body["input"] == {"text": "Summarise this."}
        done = await run_in_thread(
            lambda: stage.tells(task_id, "complete", lease_token=claimed.body["lease_token"], result={})
        )
        assert done.status == 200

    in_loop(whole())


def answered(stage: Stage, task_id: str) -> None:
    token = stage.claimed(task_id)
    assert stage.tells(task_id, "answer", lease_token=token, parts=[{"text": "Thursday."}]).status == 200


def test_clients_of_the_old_version_that_take_only_events_hear_of_faults_in_them(agent: Agent) -> None:
    async def whole() -> None:
        absent = {"id": "00000000-0000-4000-8000-000000000000"}
        answer = await agent.rpc("tasks/resubscribe", absent, version="", accept="text/event-stream")
        [event] = await heard(answer)
        assert (answer.status, event.data["error"]["code"], event.data["id"]) == (200, -32001, 7)
        for accept in ("application/json, text/event-stream", "*/*"):
            assert await agent.fault("tasks/resubscribe", absent, version="", accept=accept) == (200, -32001)

    in_loop(whole())
