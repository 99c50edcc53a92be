"""Calls of a session whose client goes away, or whose process ends."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from common.asgi import client_disconnect
from mcp.gateway.types import CallRequest, CallResult
from mcp.server import application
from tests.front.asking import body
from tests.front.door import DONE, Client, Gateway
from tests.front.handshake import OLDEST, Caller, call, token
from tests.front.test_stream import nothing_left, run
from tests.nhi import cast

pytestmark = [pytest.mark.capability("MCP-06"), pytest.mark.django_db(transaction=True)]
TOLD = call(_meta={"progressToken": "mine"})


class Patient(Gateway):
    """Its calls end when they are let go; each tells its progress before and after."""

    def __init__(self) -> None:
        super().__init__(self.work)
        self.go = asyncio.Event()
        self.done = 0

    async def work(self, ask: CallRequest) -> CallResult:
        await self.tell(ask, 1)
        await self.go.wait()
        await self.tell(ask, 2)
        self.done += 1
        return DONE

    async def tell(self, ask: CallRequest, progress: int) -> None:
        if ask.on_progress is not None:
            await ask.on_progress({"progress": progress})


Scene = Callable[[Patient, Client, "asyncio.Task[None]"], Awaitable[Any]]


def play(scene: Scene, sent: Any = None, *, gateway: type[Patient] = Patient) -> Patient:
    """A scene with a call under way; it ends when nothing of it is left."""
    bearer = token(cast.agent())

    async def whole() -> Patient:
        patient = gateway()
        caller = Caller(patient, bearer)
        await asyncio.to_thread(caller.begin, OLDEST)
        client = Client(patient)
        asking = asyncio.create_task(client.send(caller.headers(), [body(TOLD if sent is None else sent)]))
        await patient.begun.wait()
        await scene(patient, client, asking)
        await nothing_left()
        return patient

    response = run(whole)
    assert isinstance(response, Patient)
    return response


@pytest.mark.parametrize("sent", [TOLD, call(), [call(id=1), call(id=2)]], ids=["progress", "plain", "array"])
def test_a_call_runs_on_without_its_client_and_tells_it_nothing_more(sent: Any) -> None:
    async def scene(gateway: Patient, client: Client, asking: "asyncio.Task[None]") -> None:
        client.gone.set()
        await asking
        heard = len(client.sent)
        gateway.go.set()
        while gateway.done < len(gateway.asked):
            await asyncio.sleep(0)
        assert len(client.sent) == heard
        assert all(message.get("more_body", True) for message in client.sent)

    gateway = play(scene, sent)
    assert gateway.done == (2 if isinstance(sent, list) else 1)
    assert not gateway.cancelled


def test_a_stream_that_was_not_open_is_not_opened_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp.server.handshake.session_handler.KEEP_ALIVE_SECONDS", 0.05)

    async def scene(gateway: Patient, client: Client, asking: "asyncio.Task[None]") -> None:
        client.gone.set()
        await asking
        await asyncio.sleep(0.1)
        gateway.go.set()
        assert not client.sent

    play(scene, call())


def test_progress_after_the_client_has_left_opens_no_stream() -> None:
    async def scene(gateway: Patient, client: Client, asking: "asyncio.Task[None]") -> None:
        client.gone.set()
        await asking
        heard = len(client.sent)
        gateway.go.set()
        while not gateway.done:
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        assert len(client.sent) == heard == 0

    class Late(Patient):
        async def tell(self, ask: CallRequest, progress: int) -> None:
            if self.go.is_set():
                await super().tell(ask, progress)

    play(scene, gateway=Late)


def test_a_long_silence_is_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp.server.handshake.session_handler.KEEP_ALIVE_SECONDS", 0.01)

    async def scene(gateway: Patient, client: Client, asking: "asyncio.Task[None]") -> None:
        await client.said.wait()
        gateway.go.set()
        await asking
        ping, answer = client.events
        assert ping is None
        assert answer["result"]["content"]

    play(scene, call())


def test_the_end_of_the_process_is_told_to_a_client_that_is_there() -> None:
    async def scene(gateway: Patient, client: Client, asking: "asyncio.Task[None]") -> None:
        asking.cancel()
        await asking
        assert client.events[-1]["error"]["data"] == {"reason": "stopping"}
        assert client.events[-1]["id"] == 1
        assert gateway.cancelled

    play(scene)


def test_the_end_of_the_process_cancels_the_calls_that_ran_on() -> None:
    async def scene(gateway: Patient, client: Client, asking: "asyncio.Task[None]") -> None:
        client.gone.set()
        await asking
        assert not gateway.cancelled
        await application.close()
        assert gateway.cancelled

    play(scene)


def test_a_call_that_runs_on_and_fails_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(after: asyncio.Event) -> None:
        await after.wait()
        raise KeyError("broken")

    async def leave() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def scene() -> None:
        left = asyncio.Event()
        assert await client_disconnect.run_beyond_disconnect(leave, fail(left)) is None
        left.set()
        await nothing_left()

    run(scene)
    [record] = caplog.records
    assert record.exc_info is not None
    assert record.message == "a call failed after its client had disconnected"
