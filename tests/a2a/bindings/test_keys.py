"""`Idempotency-Key` over HTTP: who sends the same again, or at once, has one task."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from a2a.choices import TaskState
from a2a.models import SentOnce, Task
from tests.a2a.bindings.conftest import AT_ONCE, Agent, heard, in_loop, run_in_thread, says
from tests.a2a.bindings.ways import PROTO, SEND

pytestmark = [pytest.mark.capability("A2A-11", "A2A-03"), pytest.mark.both_databases]
Told = tuple[int, Any]
Send = Callable[..., Awaitable[Told]]
AT_A_TIME = 20


async def new_rpc(agent: Agent, key: str, text: str = "Hello", **how: Any) -> Told:
    told = await (await agent.rpc("SendMessage", said(AT_ONCE, "parts", text), idempotency_key=key, **how)).json()
    return (200, told["result"]["task"]) if "result" in told else (told["error"]["code"], told["error"])


async def old_rpc(agent: Agent, key: str, text: str = "Hello", **how: Any) -> Told:
    params = said(SEND, "parts", text, kind="text")
    told = await (await agent.rpc("message/send", params, version="", idempotency_key=key, **how)).json()
    return (200, told["result"]) if "result" in told else (told["error"]["code"], told["error"])


async def new_http(agent: Agent, key: str, text: str = "Hello", **how: Any) -> Told:
    answer = await agent.rest("POST", "message:send", said(AT_ONCE, "parts", text), idempotency_key=key, **how)
    told = await answer.json()
    return answer.status, told.get("task", told)


async def old_http(agent: Agent, key: str, text: str = "Hello", **how: Any) -> Told:
    body = said(PROTO, "content", text)
    answer = await agent.rest("POST", "v1/message:send", body, idempotency_key=key, a2a_version="", **how)
    told = await answer.json()
    return answer.status, told.get("task", told)


def said(params: Any, name: str, text: str, **kind: str) -> Any:
    return {**params, "message": {**params["message"], name: [{**kind, "text": text}]}}


each = pytest.mark.parametrize(
    ("send", "conflict"), [(new_rpc, -32013), (old_rpc, -32013), (new_http, 409), (old_http, 409)]
)


@each
def test_the_same_again_is_the_same_task_and_another_body_a_conflict(agent: Agent, send: Send, conflict: int) -> None:
    async def whole() -> None:
        (_, first), (_, again) = await send(agent, "k-1"), await send(agent, "k-1")
        assert first["id"] == again["id"]
        code, told = await send(agent, "k-1", "Something else")
        assert (code, "idempotency_key_used" in str(told)) == (conflict, True)
        # A key is its caller's own.
        assert (await send(agent, "k-1", token=agent.stage.admin.token))[1]["id"] != first["id"]
        assert (await send(agent, "k-2"))[1]["id"] != first["id"]

    in_loop(whole())
    assert Task.objects.count() == 3


@each
def test_of_many_at_once_one_makes_the_task(agent: Agent, send: Send, conflict: int) -> None:
    async def whole() -> list[Told]:
        return await asyncio.gather(*(send(agent, "k-1") for _ in range(AT_A_TIME)))

    told = in_loop(whole())
    assert [status for status, _ in told] == [200] * AT_A_TIME
    task = Task.objects.get()
    assert {one["id"] for _, one in told} == {str(task.pk)}
    assert SentOnce.objects.get().task == task


def test_of_many_bodies_at_once_one_is_sent(agent: Agent) -> None:
    async def whole() -> list[Told]:
        return await asyncio.gather(*(new_http(agent, "k-1", f"Number {number % 2}") for number in range(AT_A_TIME)))

    statuses = sorted(status for status, _ in in_loop(whole()))
    assert statuses == [200] * (AT_A_TIME // 2) + [409] * (AT_A_TIME // 2)
    assert Task.objects.count() == 1


def test_a_stream_under_a_key_follows_the_task_of_that_key(agent: Agent) -> None:
    async def whole() -> None:
        _, task = await new_rpc(agent, "k-1")
        again = await agent.rpc("SendStreamingMessage", said(AT_ONCE, "parts", "Hello"), idempotency_key="k-1")
        await run_in_thread(lambda: says(task["id"], TaskState.COMPLETED))
        assert [one.id for one in await heard(again)] == ["1", "2"]

    in_loop(whole())
    assert Task.objects.count() == 1


def test_a_key_that_is_empty_or_too_long_is_refused(agent: Agent) -> None:
    async def whole() -> None:
        assert (await new_rpc(agent, ""))[0] == (await new_rpc(agent, "x" * 201))[0] == -32602

    in_loop(whole())
    assert not Task.objects.exists()
