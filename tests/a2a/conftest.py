"""A planner that may call a writer, and everybody who may not."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from a2a import sending
from a2a.models import Task
from a2a.sending import Wish
from nhi import actors
from nhi.models import Identity, NhiPermission, User
from supervisor.access import Caller as Asking
from tests.api.callers import Caller, Reply, calling
from tests.api.conftest import _last_uses_are_written_when_asked as _last_uses_are_written_when_asked
from tests.nhi import cast

ASKED = {"document": "minutes.md"}


@dataclass
class Stage:
    mara: User
    planner: Identity
    writer: Identity
    grant: NhiPermission
    #: By token: a security admin, who sends, who works, and another agent.
    admin: Caller
    sender: Caller
    worker: Caller
    stranger: Caller

    def sends(self, caller: Caller | None = None, *, key: str = "", **more: Any) -> Reply:
        body = {"target_agent_id": str(self.writer.pk), "task_type": "summarise", "input": ASKED, **more}
        headers = {"Idempotency-Key": key} if key else {}
        return (caller or self.sender).send("POST", "a2a/tasks", json.dumps(body), **headers)

    def sent(self, **more: Any) -> str:
        reply = self.sends(**more)
        assert reply.status == 201, reply.body
        return str(reply.body["task_id"])

    def claims(self, task_id: str, **more: Any) -> Reply:
        return self.worker.post(f"a2a/inbox/{task_id}/claim", more)

    def claimed(self, task_id: str) -> str:
        reply = self.claims(task_id)
        assert reply.status == 200, reply.body
        return str(reply.body["lease_token"])

    def tells(self, task_id: str, verb: str, **body: Any) -> Reply:
        return self.worker.post(f"a2a/inbox/{task_id}/{verb}", body)

    def reads(self, task_id: str) -> Any:
        return self.sender.get(f"a2a/tasks/{task_id}").body


@pytest.fixture
def stage(db: None) -> Stage:
    return set_stage()


@pytest.fixture
def open_stage(transactional_db: None) -> Stage:
    """The same, committed, for tests with several connections."""
    return set_stage()


def set_stage() -> Stage:
    mara, planner, writer = cast.user("mara", "security-admin"), cast.agent("planner"), cast.agent("writer")
    return Stage(
        mara=mara,
        planner=planner,
        writer=writer,
        grant=cast.nhi_grant(planner, writer),
        admin=calling(mara),
        sender=calling(planner),
        worker=calling(writer),
        stranger=calling(cast.agent("other")),
    )


@pytest.fixture
def task(stage: Stage) -> Task:
    """One that nobody has taken yet."""
    return Task.objects.get(pk=stage.sent())


@pytest.fixture
def make_task(stage: Stage) -> Callable[..., Task]:
    """Sent by the stage's admin to its writer, past the API."""

    def make(**wished: Any) -> Task:
        caller = Asking(actors.person(stage.mara))
        return sending.send(caller=caller, target=stage.writer, wish=Wish(sending.of_input(ASKED), **wished))

    return make
