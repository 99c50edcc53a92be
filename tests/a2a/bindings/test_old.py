"""0.3 over JSON-RPC and over HTTP: its shapes and its words, before the operations that 1.0 has too."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from a2a.choices import TaskState
from tests.a2a.bindings.conftest import AT_ONCE, Agent, in_loop, run_in_thread, says
from tests.a2a.bindings.ways import HELLO, PROTO, SEND
from tests.a2a.callbacks.conftest import make_receiver, receiver  # noqa: F401 - fixtures
from tests.a2a.callbacks.receiver import Receiver
from tests.services.asgi import Answer

pytestmark = [pytest.mark.capability("A2A-03"), pytest.mark.both_databases]
WORDS: dict[str, Any] = {"a2a_version": ""}


async def old(agent: Agent, method: str, params: Any) -> Any:
    return await agent.call(method, params, version="")


async def rest(agent: Agent, method: str, path: str, body: Any = None, **how: Any) -> Any:
    answer = await agent.rest(method, f"v1/{path}", body, **WORDS, **how)
    return answer.status, await answer.json()


def test_a_task_is_sent_read_and_cancelled_over_json_rpc(agent: Agent) -> None:
    async def whole() -> None:
        task = await old(agent, "message/send", SEND)
        assert (task["kind"], task["status"]["state"]) == ("task", "submitted")
        assert task["history"][0]["parts"] == HELLO["parts"]
        again = await old(agent, "tasks/get", {"id": task["id"], "historyLength": 0})
        assert again["id"] == task["id"]
        assert not again.get("history")
        assert (await old(agent, "tasks/cancel", {"id": task["id"]}))["status"]["state"] == "canceled"
        assert await agent.fault("tasks/cancel", {"id": task["id"]}, version="") == (200, -32002)

    in_loop(whole())


def test_a_task_is_sent_read_and_cancelled_over_http(agent: Agent) -> None:
    async def whole() -> None:
        status, sent = await rest(agent, "POST", "message:send", PROTO)
        assert (status, sent["task"]["status"]["state"]) == (200, "TASK_STATE_SUBMITTED")
        assert sent["task"]["history"][0]["content"] == PROTO["message"]["content"]  # type: ignore[index]  # a message
        task_id = sent["task"]["id"]
        status, got = await rest(agent, "GET", f"tasks/{task_id}", query="historyLength=1")
        assert (status, got["id"]) == (200, task_id)
        status, cancelled = await rest(agent, "POST", f"tasks/{task_id}:cancel", {})
        assert (status, cancelled["status"]["state"]) == (200, "TASK_STATE_CANCELLED")
        status, refused = await rest(agent, "POST", f"tasks/{task_id}:cancel", {})
        assert (status, refused["error"]) == (400, "TaskNotCancelableError")

    in_loop(whole())


def followed(begin: Callable[[], Awaitable[Answer]], task_id: Callable[[Any], str]) -> list[Any]:
    """What a stream tells of a task that is worked on and completed while it is open."""

    async def whole() -> list[Any]:
        answer = await begin()
        events = answer.events()
        told = [(await anext(events)).data]
        for state, text in ((TaskState.WORKING, ""), (TaskState.COMPLETED, "Done")):
            await run_in_thread(partial(says, task_id(told[0]), state, text))
        return told + [event.data async for event in events]

    return in_loop(whole())


def test_a_stream_over_json_rpc_says_when_it_is_over(agent: Agent) -> None:
    begin = partial(agent.rpc, "message/stream", {"message": HELLO}, version="")
    told = [one["result"] for one in followed(begin, lambda first: str(first["result"]["id"]))]
    assert [one["kind"] for one in told] == ["task", "status-update", "status-update"]
    assert [(one["status"]["state"], one["final"]) for one in told[1:]] == [("working", False), ("completed", True)]
    assert told[-1]["status"]["message"]["parts"] == [{"kind": "text", "text": "Done"}]


def test_a_stream_over_http_says_when_it_is_over(agent: Agent) -> None:
    begin = partial(agent.rest, "POST", "v1/message:stream", PROTO, **WORDS)
    told = followed(begin, lambda first: str(first["task"]["id"]))
    assert [next(iter(one)) for one in told] == ["task", "statusUpdate", "statusUpdate"]
    assert [one["statusUpdate"]["final"] for one in told[1:]] == [False, True]


def test_receivers_are_kept_in_its_shape(agent: Agent, receiver: Receiver) -> None:  # noqa: F811 - a fixture
    async def whole() -> None:
        task_id = (await old(agent, "message/send", SEND))["id"]
        config = {"id": "c", "url": receiver.url("/a"), "authentication": {"schemes": ["Bearer"], "credentials": "x"}}
        made = await old(
            agent, "tasks/pushNotificationConfig/set", {"taskId": task_id, "pushNotificationConfig": config}
        )
        assert made == {"taskId": task_id, "pushNotificationConfig": config}
        # Which one may be left out, where there is one.
        assert await old(agent, "tasks/pushNotificationConfig/get", {"id": task_id}) == made
        assert await old(agent, "tasks/pushNotificationConfig/list", {"id": task_id}) == [made]
        name = f"tasks/{task_id}/pushNotificationConfigs/c"
        read = (200, {"name": name, "pushNotificationConfig": config})
        assert await rest(agent, "GET", name) == read
        assert await rest(agent, "POST", f"tasks/{task_id}/pushNotificationConfigs", {"config": read[1]}) == read
        assert await rest(agent, "DELETE", name) == (200, {})
        gone = {"id": task_id, "pushNotificationConfigId": "c"}
        assert await old(agent, "tasks/pushNotificationConfig/delete", gone) is None
        assert await agent.fault("tasks/pushNotificationConfig/get", gone, version="") == (200, -32001)

    in_loop(whole())


def test_a_receiver_without_a_name_is_the_default_one_and_the_next_takes_its_place(
    agent: Agent, receiver: Receiver,  # noqa: F811 - a fixture
) -> None:  # fmt: skip
    async def whole() -> None:
        task_id = (await old(agent, "message/send", SEND))["id"]
        for place in ("/a", "/b"):
            config = {"taskId": task_id, "pushNotificationConfig": {"url": receiver.url(place)}}
            await old(agent, "tasks/pushNotificationConfig/set", config)
        asked = {"id": task_id, "pushNotificationConfigId": "default"}
        made = await old(agent, "tasks/pushNotificationConfig/get", asked)
        assert made["pushNotificationConfig"]["url"] == receiver.url("/b")
        assert await old(agent, "tasks/pushNotificationConfig/list", {"id": task_id}) == [made]

    in_loop(whole())


def test_every_problem_is_told_in_the_words_of_0_3(agent: Agent) -> None:
    async def whole() -> None:
        told = await (await agent.rpc("message/send", {"message": {"role": "boss"}}, version="")).json()
        assert told["error"]["code"] == -32602
        fields = ["message.messageId", "message.parts", "message.role"]
        assert sorted(one["field"] for one in told["error"]["data"]["fields"]) == fields
        status, told = await rest(agent, "POST", "message:send", {"message": {"role": "boss"}})
        assert (status, told["error"]) == (400, "InvalidParamsError")
        assert [one["field"] for one in told["fields"]] == ["message.messageId", "message.content", "message.role"]
        status, told = await rest(agent, "GET", "tasks/unknown")
        assert (status, told["error"]) == (404, "TaskNotFoundError")
        # Also before it is known what was asked for, and where there is nothing to ask for.
        status, told = await rest(agent, "GET", "tasks/unknown", token="")
        assert (status, told["error"]) == (401, "UnauthenticatedError")
        status, told = await rest(agent, "GET", "nothing")
        assert (status, told["error"]) == (404, "NotFoundError")

    in_loop(whole())


def test_there_is_no_listing_and_no_speaking_of_1_0(agent: Agent) -> None:
    async def whole() -> None:
        assert (await rest(agent, "GET", "tasks"))[0] in {404, 405}
        assert await agent.fault("message/send", SEND, version="1.0") == (200, -32009)
        assert await agent.fault("SendMessage", AT_ONCE, version="0.3") == (200, -32009)

    in_loop(whole())
