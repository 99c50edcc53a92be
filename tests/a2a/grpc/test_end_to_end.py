"""Tasks over gRPC with the real operations behind it: sent, followed to the end, listed, cancelled, and by whom."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from a2a import parts, writer
from a2a.changes import Made, Status
from a2a.choices import Role, TaskState
from a2a.grpc_door.door import Door
from a2a.grpc_door.serving import Serving
from a2a.models import Task
from a2a.operations import asking
from a2a.operations.desk import desk
from a2a.wire import protobuf
from tests.a2a.conftest import Stage
from tests.a2a.grpc.door import NEW, OLD, Client, Metadata

pytestmark = [pytest.mark.capability("A2A-03", "A2A-08"), pytest.mark.both_databases]

PARTS = {"messageId": "m", "role": "ROLE_USER"}
AT_ONCE = {"message": {**PARTS, "parts": [{"text": "Summarise."}]}, "configuration": {"returnImmediately": True}}
OLD_AT_ONCE = {"message": {**PARTS, "content": [{"text": "Summarise."}]}, "configuration": {}}


@pytest.fixture(autouse=True)
def _no_thread_stays() -> Iterator[None]:
    yield
    desk.close()


@asynccontextmanager
async def at(stage: Stage) -> AsyncIterator[Client]:
    serving = Serving(Door(asking), address="127.0.0.1", port=0)
    await serving.server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{serving.port}") as channel:
            yield Client(channel)
    finally:
        await serving.server.stop(0)


def said_by(caller: Any, agent: str = "writer") -> Metadata:
    return [("authorization", f"Bearer {caller.token}"), ("x-gatehouse-agent", agent)]


def finish(task_id: str) -> None:
    """What the agent does."""
    made = parts.artifact([parts.data({"words": 3})])
    done = parts.message(Role.AGENT, [parts.text("Done.")])
    writer.apply_event(
        Task.objects.get(pk=task_id).pk, Status(TaskState.WORKING), Made(made), Status(TaskState.COMPLETED, done)
    )


@pytest.mark.parametrize("version", ["1.0", "0.3"])
def test_a_task_is_sent_followed_to_its_end_and_read(open_stage: Stage, version: str) -> None:
    rpcs, sent = (NEW, AT_ONCE) if version == "1.0" else (OLD, OLD_AT_ONCE)

    async def run() -> tuple[list[Any], Any]:
        async with at(open_stage) as client:
            me = said_by(open_stage.sender)
            call = client.follow(rpcs["SendStreamingMessage"], sent, me)
            first = protobuf.as_json(await call.read())
            await asyncio.to_thread(finish, first["task"]["id"])
            rest = []
            while (item := await call.read()) is not grpc.aio.EOF:
                rest.append(protobuf.as_json(item))
            named = {"id": first["task"]["id"]} if version == "1.0" else {"name": f"tasks/{first['task']['id']}"}
            return [first, *rest], await client.ask(rpcs["GetTask"], named, me)

    told, task = asyncio.run(run())
    assert [next(iter(item)) for item in told] == ["task", "statusUpdate", "artifactUpdate", "statusUpdate"]
    assert told[-1]["statusUpdate"]["status"]["state"] == task["status"]["state"] == "TASK_STATE_COMPLETED"
    data = task["artifacts"][0]["parts"][0]["data"]
    assert (data if version == "1.0" else data["data"]) == {"words": 3}
    if version == "0.3":
        assert [item["statusUpdate"].get("final", False) for item in told if "statusUpdate" in item] == [False, True]


def test_one_version_lists_and_cancels_what_the_other_sent(open_stage: Stage) -> None:
    async def run() -> None:
        async with at(open_stage) as client:
            me = said_by(open_stage.sender)
            sent = await client.ask(OLD["SendMessage"], OLD_AT_ONCE, me)
            listed = await client.ask(NEW["ListTasks"], {}, me)
            assert [task["id"] for task in listed["tasks"]] == [sent["task"]["id"]]
            cancelled = await client.ask(NEW["CancelTask"], {"id": sent["task"]["id"]}, me)
            assert cancelled["status"]["state"] == "TASK_STATE_CANCELED"
            again = await client.ask(OLD["GetTask"], {"name": f"tasks/{sent['task']['id']}"}, me)
            assert again["status"]["state"] == "TASK_STATE_CANCELLED"
            refused = await client.refused(client.ask(NEW["CancelTask"], {"id": sent["task"]["id"]}, me))
            assert (refused.code, refused.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "TASK_NOT_CANCELABLE")

    asyncio.run(run())


def test_strangers_and_unknown_agents_hear_the_same(open_stage: Stage) -> None:
    async def run() -> None:
        async with at(open_stage) as client:
            sent = await client.ask(NEW["SendMessage"], AT_ONCE, said_by(open_stage.sender))
            stranger = said_by(open_stage.stranger)
            nobody = said_by(open_stage.stranger, "nobody")
            for rpc, params in (
                (NEW["SendMessage"], AT_ONCE),
                (NEW["GetTask"], {"id": sent["task"]["id"]}),
                (NEW["ListTasks"], {}),
                (NEW["CancelTask"], {"id": sent["task"]["id"]}),
                (OLD["SendMessage"], OLD_AT_ONCE),
                (OLD["GetTask"], {"name": f"tasks/{sent['task']['id']}"}),
                (OLD["CancelTask"], {"name": f"tasks/{sent['task']['id']}"}),
            ):
                theirs, nobodys = [await client.refused(client.ask(rpc, params, who)) for who in (stranger, nobody)]
                assert theirs.code is nobodys.code is grpc.StatusCode.NOT_FOUND, rpc.path
                assert (theirs.message, theirs.reason) == (nobodys.message, nobodys.reason)
            followed = client.follow(NEW["SubscribeToTask"], {"id": sent["task"]["id"]}, stranger)
            assert (await client.refused(followed.read())).code is grpc.StatusCode.NOT_FOUND

    asyncio.run(run())


def test_a_client_that_stops_listening_leaves_the_task_alone(open_stage: Stage) -> None:
    async def run() -> Any:
        async with at(open_stage) as client:
            me = said_by(open_stage.sender)
            call = client.follow(NEW["SendStreamingMessage"], AT_ONCE, me)
            first = protobuf.as_json(await call.read())
            call.cancel()
            await asyncio.to_thread(finish, first["task"]["id"])
            return await client.ask(NEW["GetTask"], {"id": first["task"]["id"]}, me)

    assert asyncio.run(run())["status"]["state"] == "TASK_STATE_COMPLETED"


def test_a_deadline_ends_the_wait_and_not_the_task(open_stage: Stage) -> None:
    async def run() -> Any:
        async with at(open_stage) as client:
            me = said_by(open_stage.sender)
            waiting = {"message": AT_ONCE["message"]}
            refused = await client.refused(client.ask(NEW["SendMessage"], waiting, me, timeout=1.0))
            assert refused.code is grpc.StatusCode.DEADLINE_EXCEEDED
            return await client.ask(NEW["ListTasks"], {}, me)

    assert [task["status"]["state"] for task in asyncio.run(run())["tasks"]] == ["TASK_STATE_SUBMITTED"]


@pytest.mark.capability("A2A-11")
@pytest.mark.parametrize("version", ["1.0", "0.3"])
def test_of_many_under_one_key_one_makes_the_task(open_stage: Stage, version: str) -> None:
    rpcs, sent = (NEW, AT_ONCE) if version == "1.0" else (OLD, OLD_AT_ONCE)

    async def run() -> set[str]:
        async with at(open_stage) as client:
            me = [*said_by(open_stage.sender), ("idempotency-key", "k-1")]
            told = await asyncio.gather(*(client.ask(rpcs["SendMessage"], sent, me) for _ in range(20)))
            other = {**sent, "message": {**sent["message"], "messageId": "another"}}
            refused = await client.refused(client.ask(rpcs["SendMessage"], other, me))
            assert (refused.code, refused.reason) == (grpc.StatusCode.ABORTED, "CONFLICT")
            return {one["task"]["id"] for one in told}

    assert asyncio.run(run()) == {str(Task.objects.get().pk)}
