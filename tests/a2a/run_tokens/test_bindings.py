"""A run's token over every binding: another's task is told as none, and the run's own is there."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from a2a.asgi import make_application
from a2a.models import Task
from a2a.operations.table import OPERATIONS
from tests.a2a.bindings import ways
from tests.a2a.bindings.conftest import in_loop
from tests.a2a.bindings.ways import OK, Asking, Way
from tests.a2a.callbacks.conftest import make_receiver, receiver  # noqa: F401 - fixtures
from tests.a2a.callbacks.receiver import Receiver
from tests.a2a.grpc.test_end_to_end import at
from tests.a2a.run_tokens.conftest import Scene
from tests.api.callers import ABSENT, Caller
from tests.services.asgi import Door

pytestmark = [
    pytest.mark.capability("A2A-08", "A2A-03"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.both_databases,
]
NO_TASK = "TASK_NOT_FOUND"
SENDS = ("SendMessage", "SendStreamingMessage")
KINDS = (ways.NewRpc, ways.NewHttp, ways.OldRpc, ways.OldHttp, ways.NewGrpc, ways.OldGrpc)
each = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
RUNS = pytest.mark.parametrize("which", ["bound", "free"])
#: What ends a task comes last.
ORDER = sorted(OPERATIONS, key=lambda name: name == "CancelTask")


@asynccontextmanager
async def way(kind: type[Way], scene: Scene) -> AsyncIterator[Any]:
    if issubclass(kind, ways.OverHttp):
        yield kind(Door(make_application()))
        return
    assert issubclass(kind, ways.NewGrpc)
    async with at(scene.stage) as client:
        yield kind(client)


def at_doors(scene: Scene) -> list[tuple[str, Task]]:
    """What is not the run's, by the door of its agent."""
    theirs = scene.theirs
    return [("writer", theirs.offered), ("writer", theirs.other_task), ("checker", theirs.sent)]


@each
@RUNS
def test_anothers_task_is_told_as_none(
    scene: Scene,
    kind: type[Way],
    which: str,
    receiver: Receiver,  # noqa: F811 - a fixture
) -> None:
    token = scene.run(which).token
    before = [Task.objects.filter(pk=task.pk).values().get() for _, task in at_doors(scene)]

    async def walk() -> int:
        walked = 0
        async with way(kind, scene) as over:
            for door, task in at_doors(scene):
                plain = Asking("GetTask", scene.worker.token, str(task.pk), agent=door)
                assert (await over.ask(plain)).outcome == OK, "the agent's credential reads it"
                for operation in filter(over.can, ORDER):
                    asking = Asking(
                        operation, token, str(task.pk), receiver.url("/hook"), door, goes_on=operation in SENDS
                    )
                    if asking.has_task:
                        found = await over.ask(asking)
                        assert found == await over.ask(replace(asking, task_id=ABSENT)), (door, operation)
                        assert found.outcome == NO_TASK, (door, operation)
                        walked += 1
        return walked

    assert in_loop(walk()) >= 15
    assert before == [Task.objects.filter(pk=task.pk).values().get() for _, task in at_doors(scene)]


@each
@RUNS
def test_what_the_run_sends_is_its_own(
    scene: Scene,
    kind: type[Way],
    which: str,
    receiver: Receiver,  # noqa: F811 - a fixture
) -> None:
    token, run = scene.run(which).token, scene.bound_run if which == "bound" else scene.free_run
    sent = scene.sends(scene.run(which))

    async def walk() -> dict[str, str]:
        async with way(kind, scene) as over:
            found = {}
            for operation in filter(over.can, ORDER):
                asking = Asking(operation, token, sent, receiver.url("/hook"), "checker")
                found[operation] = (await over.ask(asking)).outcome
            return found

    found = in_loop(walk())
    assert found == dict.fromkeys(found, OK)
    made = Task.objects.filter(sent_by_run_id=run)
    assert made.count() == 3, "by REST, by message and by stream"
    assert Task.objects.get(pk=sent).state == "canceled"
    assert Task.objects.get(pk=scene.theirs.sent.pk).is_open


@RUNS
def test_a_list_holds_the_runs_own_alone(scene: Scene, which: str) -> None:
    sent = scene.sends(scene.run(which))

    async def walk() -> list[Any]:
        async with way(ways.NewRpc, scene) as over:
            tokens = (scene.run(which).token, scene.worker.token)
            return [(await over.ask(Asking("ListTasks", token, "", agent="checker"))).words[2] for token in tokens]

    own, whole = (answer["result"] for answer in in_loop(walk()))
    assert ([task["id"] for task in own["tasks"]], own["totalSize"]) == ([sent], 1)
    assert {sent, str(scene.theirs.sent.pk)} <= {task["id"] for task in whole["tasks"]}


@RUNS
def test_an_envelope_tells_of_the_runs_own(scene: Scene, which: str) -> None:
    caller = scene.run(which)
    theirs, sent = str(scene.theirs.sent.pk), scene.sends(caller)
    assert status(caller, theirs) == status(caller, ABSENT)
    assert status(caller, sent)["result"]["id"] == sent
    assert status(scene.worker, theirs)["result"]["id"] == theirs
    assert status(caller)["result"]["openTasks"] == {"pending": 1, "running": 0}
    assert caller.get("a2a/status").body["open_tasks"] == {"pending": 1, "running": 0}
    assert caller.get("/a2a/status").body["open_tasks"] == {"pending": 1, "running": 0}


def status(caller: Caller, task_id: str = "") -> Any:
    heading = {"protocol": "a2a", "version": "1.0", "id": "e-1", "type": "request", "timestamp": "2026-11-18T10:00:00Z"}
    context = {"from": "", "to": "checker" if task_id else "", "conversationId": "", "messageId": "m-1"}
    payload = {"method": "status", "params": {"id": task_id} if task_id else {}}
    return caller.post("a2a/envelope", {**heading, "context": context, "payload": payload}).body["payload"]
