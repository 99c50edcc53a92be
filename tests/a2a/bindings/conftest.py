"""The bindings as the web process serves them, before a stage whose rows other connections see."""

import asyncio
import json
from collections.abc import Awaitable, Iterator
from typing import Any, TypeVar

import pytest

from a2a import parts, writer
from a2a.asgi import make_application
from a2a.changes import Status
from a2a.choices import Role, TaskState
from a2a.models import Task
from a2a.news import notifier
from a2a.operations.desk import desk
from common.executors import run_in_thread
from tests.a2a.conftest import Stage
from tests.services.asgi import LONGEST, Answer, Door, Event

__all__ = ["AT_ONCE", "SENT", "Agent", "heard", "in_loop", "run_in_thread", "says"]
T = TypeVar("T")
SENT = {"message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "Summarise this."}]}}
AT_ONCE = {**SENT, "configuration": {"returnImmediately": True}}


def in_loop(work: Awaitable[T]) -> T:
    async def whole() -> T:
        async with asyncio.timeout(2 * LONGEST):
            return await work

    return asyncio.run(whole())


class Agent(Door):
    """One agent's address, as a client speaks to it."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(make_application())
        self.stage, self.name, self.token = stage, stage.writer.name, stage.sender.token

    async def rpc(
        self, method: str, params: Any = None, *, token: str | None = None, version: str = "1.0", **headers: str
    ) -> Answer:
        body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params or {}}).encode()
        said = {"a2a_version": version} if version else {}
        shown = self.token if token is None else token
        return await self.ask(
            "POST", f"/agents/{self.name}/", shown, "", body, **{"content_type": "application/json", **said, **headers}
        )

    async def call(self, method: str, params: Any = None, **how: Any) -> Any:
        """The result; an error is the test's."""
        told = await (await self.rpc(method, params, **how)).json()
        assert "result" in told, told
        return told["result"]

    async def fault(self, method: str, params: Any = None, **how: Any) -> tuple[int, int]:
        """The status and the code of an error."""
        answer = await self.rpc(method, params, **how)
        told = await answer.json()
        assert "error" in told, told
        return answer.status, told["error"]["code"]

    async def rest(
        self, method: str, path: str, body: Any = None, *, token: str | None = None, query: str = "", **headers: str
    ) -> Answer:
        sent = b"" if body is None else json.dumps(body).encode()
        said = {"a2a_version": "1.0", **({"content_type": "application/json"} if sent else {}), **headers}
        shown = self.token if token is None else token
        return await self.ask(method, f"/agents/{self.name}/{path}", shown, query, sent, **said)


@pytest.fixture
def agent(open_stage: Stage) -> Iterator[Agent]:
    yield Agent(open_stage)
    desk.close()
    notifier.close()


def says(task_id: str, state: TaskState, text: str = "", **more: Any) -> Task:
    """What the agent behind the task does, past the API."""
    said = parts.message(Role.AGENT, [parts.text(text)]) if text else None
    return writer.apply_event(Task.objects.get(pk=task_id).pk, Status(state, said, **more))


async def heard(answer: Answer) -> list[Event]:
    return [event async for event in answer.events()]
