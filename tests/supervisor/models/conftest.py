"""A model's endpoint, a governed server with two tools, and agents that ask the first and call the second."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mcp.models import Tool
from nhi.access import grants
from nhi.actors import SYSTEM
from nhi.models import Identity
from supervisor import agents
from supervisor.models import Agent
from tests.mcp import peer
from tests.mcp.peer import Peer
from tests.mcp.scene import Scene, scene
from tests.nhi import cast
from tests.services import gateway
from tests.supervisor.models import endpoint
from tests.supervisor.models.endpoint import Model

#: What must be found nowhere.
KEY = "sk-canary-4f9a1c77e2b84d0d9a6e"


@pytest.fixture(autouse=True)
def _no_thread_outlives_a_test() -> Iterator[None]:
    yield
    gateway.end()


@pytest.fixture
def model(settings: Any) -> Iterator[Model]:
    with endpoint.serving() as one:
        settings.EGRESS_ALLOW = settings.EGRESS_ALLOW | {one.place}
        yield one


@pytest.fixture
def server(settings: Any) -> Iterator[Peer]:
    with peer.serving("echo", "count") as one:
        settings.EGRESS_ALLOW = settings.EGRESS_ALLOW | {f"127.0.0.1:{one.port}"}
        yield one


@pytest.fixture
def governed(transactional_db: None, server: Peer) -> Scene:
    """Its tools are approved and granted to nobody."""
    return scene(server.url, agents=[])


@pytest.fixture
def make_model(transactional_db: None, model: Model) -> Callable[..., Agent]:
    def make(*, name: str = "thinker", key: str = KEY, identity: Identity | None = None, **given: Any) -> Agent:
        described = {
            "name": name, "kind": "model", "base_url": model.base_url, "model": "small-1", "timeout": 20,
            "max_retries": 0, **given,
        }  # fmt: skip
        whose = identity or cast.agent(name)
        return agents.create(actor=cast.admin(), identity=whose, given=described, api_key=key)

    return make


@pytest.fixture
def grant(transactional_db: None) -> Callable[..., Any]:
    def give(agent: Agent, tool: str = "echo", **limits: Any) -> Any:
        found = Tool.objects.select_related("identity").get(server__name="peer", name=tool)
        identity = Identity.objects.get(pk=agent.identity_id)
        return grants.give_tool(actor=SYSTEM, agent=identity, tool=found.identity, reason="For the test", **limits)

    return give
