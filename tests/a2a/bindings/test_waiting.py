"""An inbox that is asked with patience answers when a task comes, and not before."""

import asyncio
from typing import Any

import pytest
from django.core.asgi import get_asgi_application

from a2a.api.waiting import Waiting
from tests.a2a.bindings.conftest import Agent, in_loop, in_thread
from tests.services.asgi import Door

pytestmark = [pytest.mark.capability("A2A-07"), pytest.mark.both_databases]


def test_who_waits_is_answered_when_a_task_comes(agent: Agent) -> None:
    stage, door = agent.stage, Door(Waiting(get_asgi_application()))

    async def ask(query: str, token: str = stage.worker.token) -> Any:
        answer = await door.ask("GET", "/api/nhi/a2a/inbox", token, query)
        return answer.status, await answer.json()

    async def whole() -> None:
        waiting = asyncio.create_task(ask("wait=30"))
        assert (await ask("wait=0"))[1]["tasks"] == []
        assert not waiting.done()
        task_id = await in_thread(stage.sent)
        status, told = await waiting
        assert (status, [one["task_id"] for one in told["tasks"]]) == (200, [task_id])
        # With something in it there is nothing to wait for, and what is another's is no reason.
        assert len((await ask("wait=30"))[1]["tasks"]) == 1
        assert (await ask("wait=1", stage.sender.token))[1]["tasks"] == []
        assert (await ask("wait=x"))[0] == 400
        assert (await ask("wait=5", "nhi_agt_no"))[0] == 401

    in_loop(whole())
