"""An inbox that is asked with patience answers when a task comes, and not before."""

import asyncio
import json
from typing import Any

import pytest

from a2a.api.waiting import Waiting
from common.asgi.bodies import limit_body
from common.asgi.django_handler import ThreadedHandler
from tests.a2a.bindings.conftest import Agent, in_loop, run_in_thread
from tests.services.asgi import Door

pytestmark = [pytest.mark.capability("A2A-07"), pytest.mark.both_databases]


def test_who_waits_is_answered_when_a_task_comes(agent: Agent) -> None:
    stage, door = agent.stage, Door(limit_body(Waiting(ThreadedHandler()), limit=1024))

    async def ask(query: str, token: str = stage.worker.token) -> Any:
        answer = await door.ask("GET", "/api/nhi/a2a/inbox", token, query)
        return answer.status, await answer.json()

    async def whole() -> None:
        waiting = asyncio.create_task(ask("wait=30"))
        assert (await ask("wait=0"))[1]["tasks"] == []
        assert not waiting.done()
        task_id = await run_in_thread(stage.sent)
        status, told = await waiting
        assert (status, [one["task_id"] for one in told["tasks"]]) == (200, [task_id])
        # With something in it there is nothing to wait for, and what is another's is no reason.
        assert len((await ask("wait=30"))[1]["tasks"]) == 1
        assert (await ask("wait=1", stage.sender.token))[1]["tasks"] == []
        assert (await ask("wait=x"))[0] == 400
        assert (await ask("wait=5", "nhi_agt_no"))[0] == 401

    in_loop(whole())


def test_who_wants_the_next_waits_for_it_and_two_are_given_one_each(agent: Agent) -> None:
    stage, door = agent.stage, Door(limit_body(Waiting(ThreadedHandler()), limit=1024))

    async def take(**asked: Any) -> Any:
        answer = await door.ask(
            "POST",
            "/api/nhi/a2a/inbox/claim",
            stage.worker.token,
            body=json.dumps(asked).encode(),
            content_type="application/json",
        )
        return answer.status, await answer.json()

    async def whole() -> None:
        waiting = [asyncio.create_task(take(wait=30)) for _ in range(2)]
        assert (await take())[1]["tasks"] == []
        sent = {await run_in_thread(stage.sent), await run_in_thread(stage.sent)}
        taken = [await one for one in waiting]
        assert [status for status, _ in taken] == [200, 200]
        assert {one["task_id"] for _, told in taken for one in told["tasks"]} == sent
        assert [len(told["tasks"]) for _, told in taken] == [1, 1]
        assert (await take(wait="x"))[0] == 400

    in_loop(whole())
