"""Who may do what, in every binding alike; and that nobody learns of what is not theirs."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from a2a import pushing, sending
from a2a.asgi import make_application
from a2a.news import notifier
from a2a.operations.desk import desk
from a2a.operations.table import OPERATIONS
from a2a.sending import Wish
from nhi import actors
from nhi.access import grants
from nhi.actors import SYSTEM
from nhi.identities import lifecycle
from supervisor.access import Caller as Asker
from tests.a2a.bindings import ways
from tests.a2a.bindings.conftest import in_loop
from tests.a2a.bindings.ways import OK, Asking, Told, Way
from tests.a2a.callbacks.conftest import make_receiver, receiver  # noqa: F401 - fixtures
from tests.a2a.callbacks.receiver import Receiver
from tests.a2a.conftest import Stage
from tests.a2a.grpc.test_end_to_end import at
from tests.api.callers import ABSENT, calling
from tests.nhi import cast
from tests.services.asgi import Door

pytestmark = [pytest.mark.capability("A2A-08", "A2A-03"), pytest.mark.both_databases]

NO_TASK, NOBODY, KNOWN, REFUSED = "TASK_NOT_FOUND", "NOT_FOUND", "UNAUTHENTICATED", "FORBIDDEN"
CONFIGS = (
    "CreateTaskPushNotificationConfig",
    "GetTaskPushNotificationConfig",
    "ListTaskPushNotificationConfigs",
    "DeleteTaskPushNotificationConfig",
)
#: What ends a task comes last.
ORDER = sorted(OPERATIONS, key=lambda name: name == "CancelTask")


def alike(outcome: str, **but: str) -> dict[str, str]:
    return {**dict.fromkeys(OPERATIONS, outcome), **but}


SENDS, NO_CONFIGS = ("SendMessage", "SendStreamingMessage"), dict.fromkeys(CONFIGS, NO_TASK)
OTHERS = alike(NO_TASK, ListTasks=OK, GetExtendedAgentCard=OK)
#: By caller: what comes of each operation on a task that the planner sent to the writer.
TABLE: dict[str, dict[str, str]] = {
    "its sender": alike(OK),
    # It has no grant for itself, and what it does not want to do it rejects.
    "the agent": alike(OK, **NO_CONFIGS, **dict.fromkeys(SENDS, NOBODY), CancelTask=REFUSED),
    "an admin": alike(OK, **NO_CONFIGS),
    "another caller": {**OTHERS, **dict.fromkeys(SENDS, OK)},
    "one whose grant was revoked": {**OTHERS, **dict.fromkeys(SENDS, REFUSED)},
    "a stranger": alike(NOBODY),
    "nobody": alike(KNOWN),
    "one who is suspended": alike(KNOWN),
    "an auditor": alike(REFUSED),
}


@dataclass
class Scene:
    stage: Stage
    tokens: dict[str, str]
    #: For each caller one, of the planner's, with somebody who is told of it.
    tasks: dict[str, str]
    receiver: str

    def asking(self, who: str, operation: str, **more: Any) -> Asking:
        return Asking(operation, self.tokens[who], **{"task_id": self.tasks[who], "receiver": self.receiver, **more})


@pytest.fixture
def scene(open_stage: Stage, receiver: Receiver) -> Iterator[Scene]:  # noqa: F811 - a fixture
    stage = open_stage
    peer, former, idle = (cast.agent(name) for name in ("peer", "former", "idle"))
    given = {one.name: cast.nhi_grant(one, stage.writer) for one in (peer, former, idle)}
    cast.agent("hidden")
    tokens = {
        "its sender": stage.sender.token,
        "the agent": stage.worker.token,
        "an admin": stage.admin.token,
        "another caller": calling(peer).token,
        "one whose grant was revoked": calling(former).token,
        "a stranger": stage.stranger.token,
        "nobody": "",
        "one who is suspended": calling(idle).token,
        "an auditor": calling(cast.user("ada", "auditor")).token,
    }
    grants.revoke(actor=SYSTEM, grant=given["former"], reason="Not needed any more")
    lifecycle.suspend(actor=SYSTEM, identity=idle, reason="Odd calls")
    url = receiver.url("/hook")
    yield Scene(stage, tokens, {who: sent(stage, url) for who in TABLE}, url)
    desk.close()
    notifier.close()


def sent(stage: Stage, url: str) -> str:
    asks = actors.identity(stage.planner)
    person = Asker(actors.person(stage.mara))
    wish = Wish(sending.of_input({"a": 1}), source_agent_id=stage.planner.pk)
    task = sending.send(caller=person, target=stage.writer, wish=wish)
    pushing.make(actor=asks, task=task, asked={"id": ways.CONFIG, "url": url}, wire_version="1.0")
    return str(task.pk)


@asynccontextmanager
async def way(kind: type[Way], stage: Stage) -> AsyncIterator[Any]:
    if issubclass(kind, ways.OverHttp):
        yield kind(Door(make_application()))
        return
    assert issubclass(kind, ways.NewGrpc)
    async with at(stage) as client:
        yield kind(client)


KINDS = (ways.NewRpc, ways.NewHttp, ways.OldRpc, ways.OldHttp, ways.NewGrpc, ways.OldGrpc)
each = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def test_the_table_is_whole() -> None:
    assert all(row.keys() == OPERATIONS.keys() for row in TABLE.values())


@each
def test_what_each_may(scene: Scene, kind: type[Way]) -> None:
    async def walk() -> dict[tuple[str, str], str]:
        async with way(kind, scene.stage) as over:
            return {
                (who, operation): (await over.ask(scene.asking(who, operation))).outcome
                for who in TABLE
                for operation in ORDER
                if over.can(operation)
            }

    found = in_loop(walk())
    assert found == {(who, operation): TABLE[who][operation] for who, operation in found}


@each
def test_a_sender_keeps_its_task_after_its_grant_was_revoked(scene: Scene, kind: type[Way]) -> None:
    grants.revoke(actor=SYSTEM, grant=scene.stage.grant, reason="Not needed any more")

    async def walk() -> dict[str, str]:
        async with way(kind, scene.stage) as over:
            asked = [(name, scene.asking("its sender", name)) for name in ORDER if over.can(name)]
            return {name: (await over.ask(one)).outcome for name, one in asked}

    wanted = alike(OK, **dict.fromkeys(SENDS, REFUSED))
    found = in_loop(walk())
    assert found == {name: wanted[name] for name in found}


@each
def test_what_is_not_theirs_is_told_as_what_is_not(scene: Scene, kind: type[Way]) -> None:
    """In equal words: an agent that is hidden as one that never was, another's task as none."""

    async def same(over: Way, first: Asking, second: Asking) -> Told:
        one, other = await over.ask(first), await over.ask(second)
        assert one == other, (first, second)
        return one

    async def walk() -> None:
        async with way(kind, scene.stage) as over:
            for operation in filter(over.can, ORDER):
                for who, outcome in (("a stranger", NOBODY), ("another caller", NOBODY), ("nobody", KNOWN)):
                    hidden, absent = (scene.asking(who, operation, agent=name) for name in ("hidden", "unheard-of"))
                    assert (await same(over, hidden, absent)).outcome == outcome
                for who in ("another caller", "one whose grant was revoked"):
                    theirs = scene.asking(who, operation, goes_on=operation in SENDS)
                    if theirs.has_task:
                        assert (await same(over, theirs, replace(theirs, task_id=ABSENT))).outcome == NO_TASK

    in_loop(walk())


@each
def test_a_task_is_at_its_own_agents_door_only(scene: Scene, kind: type[Way]) -> None:
    cast.nhi_grant(scene.stage.planner, cast.agent("second"))

    async def walk() -> None:
        async with way(kind, scene.stage) as over:
            for operation in filter(over.can, ORDER):
                elsewhere = scene.asking("its sender", operation, agent="second", goes_on=operation in SENDS)
                if elsewhere.has_task:
                    told = await over.ask(elsewhere)
                    assert told == await over.ask(replace(elsewhere, task_id=ABSENT))
                    assert told.outcome == NO_TASK

    in_loop(walk())
