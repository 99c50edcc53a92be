"""Agents behind which another A2A server is, and tasks that are carried there."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

from a2a import parts, sending
from a2a.choices import Role
from a2a.models import Task
from a2a.remote import Carried, Target, carry, finding, pausing, watching
from a2a.remote import carrying as carrying_module
from a2a.sending import Wish
from common import egress
from nhi import actors
from supervisor.access import Caller
from tests.a2a.conftest import Stage
from tests.a2a.remote.bench import Bench
from tests.a2a.remote.far_side import FarSide, far_side
from tests.services import gateway
from tests.services.peers import PeerAgent, sdk_agent

T = TypeVar("T")


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """On a loop of its own, as a worker has one."""

    async def whole() -> T:
        try:
            return await main()
        finally:
            await egress.close_session()

    return asyncio.run(whole())


@dataclass
class Carrying:
    stage: Stage

    def sent(self, *said: dict[str, Any], **wished: Any) -> Task:
        """A task that says this, sent past the API."""
        caller = Caller(actors.person(self.stage.mara))
        message = parts.message(Role.USER, said)
        return sending.send(caller=caller, target=self.stage.writer, wish=Wish(message, **wished))

    def does(self, what: str, **wished: Any) -> Task:
        return self.sent(parts.data({"do": what}), **wished)

    def says(self, task: Task, text: str) -> None:
        """As its caller answers it."""
        caller = Caller(actors.person(self.stage.mara))
        held = Task.objects.get(pk=task.pk)
        sending.say(caller=caller, task=held, message=parts.message(Role.USER, [parts.text(text)]))

    def carry(self, task: Task, target: Target) -> Carried:
        return run(lambda: carry(task_id=task.pk, target=target))


def now_of(task: Task) -> Task:
    return Task.objects.select_related("remote").get(pk=task.pk)


def told(task: Task) -> list[Any]:
    """Its events in short: states with what was said, artifacts with their texts."""
    return [_short(body) for body in task.events.order_by("seq").values_list("body", flat=True)]


def _short(body: dict[str, Any]) -> Any:
    if "artifactUpdate" in body:
        update = body["artifactUpdate"]
        return update["artifact"]["artifactId"], _words(update["artifact"]), update["append"]
    if "statusUpdate" in body:
        status = body["statusUpdate"]["status"]
        return status["state"].removeprefix("TASK_STATE_").lower(), _words(status.get("message", {"parts": []}))
    return next(iter(body))


def _words(said: dict[str, Any]) -> str:
    return " ".join(part.get("text", "") for part in said["parts"])


@pytest.fixture
def carrying(open_stage: Stage) -> Carrying:
    return Carrying(open_stage)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The same rhythm, faster; and nothing known from another test."""
    monkeypatch.setattr(pausing, "AGAIN", (0.01, 0.02, 0.04))
    monkeypatch.setattr(pausing, "SOONEST", 0.02)
    monkeypatch.setattr(pausing, "LATEST", 0.1)
    monkeypatch.setattr(pausing, "LONGEST", 0.1)
    monkeypatch.setattr(watching, "LOOK_EVERY", 0.05)
    monkeypatch.setattr(carrying_module, "GRACE", 0.2)
    monkeypatch.setattr(finding, "known", finding.Known())
    yield


@pytest.fixture(scope="session")
def _streaming_agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PeerAgent]:
    with sdk_agent(tmp_path_factory.mktemp("streaming")) as agent:
        yield agent


@pytest.fixture(scope="session")
def _plain_agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PeerAgent]:
    with sdk_agent(tmp_path_factory.mktemp("plain"), "--plain", "--token", "s3cret") as agent:
        yield agent


@pytest.fixture
def streaming_agent(_streaming_agent: PeerAgent, settings: Any) -> PeerAgent:
    return _fresh(_streaming_agent, settings)


@pytest.fixture
def plain_agent(_plain_agent: PeerAgent, settings: Any) -> PeerAgent:
    """It takes polls alone, and only from who shows the token `s3cret`."""
    return _fresh(_plain_agent, settings)


def _fresh(agent: PeerAgent, settings: Any) -> PeerAgent:
    for name in ("notes", "requests", "go"):
        (agent.place / name).unlink(missing_ok=True)
    settings.EGRESS_ALLOW = settings.EGRESS_ALLOW | {agent.url.removeprefix("http://"), agent.rpc}
    return agent


@pytest.fixture
def far(settings: Any) -> Iterator[FarSide]:
    with far_side() as made:
        settings.EGRESS_ALLOW = settings.EGRESS_ALLOW | {made.place}
        yield made


@pytest.fixture
def tested(stage: Stage) -> Iterator[Bench]:
    yield Bench(stage)
    gateway.end()
