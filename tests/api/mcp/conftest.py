"""A server with two tools behind the API, and the same agents and people as beside this folder."""

from collections.abc import Iterator
from typing import Any

import pytest

from mcp.gateway.batch.worker import batch_worker
from mcp.models import Tool
from nhi.models import InvocationLog
from tests.api.callers import Reply
from tests.api.conftest import Stage
from tests.mcp.peer import Peer, serving
from tests.nhi import cast

Body = dict[str, Any]


@pytest.fixture
def peer(settings: Any) -> Iterator[Peer]:
    with serving("echo", "other") as running:
        settings.EGRESS_ALLOW = frozenset({f"127.0.0.1:{running.port}"})
        yield running


@pytest.fixture
def clerk() -> Iterator[None]:
    """Its thread has a connection of its own, which must not outlive the test's database."""
    yield
    batch_worker.stop()


def added(stage: Stage, peer: Peer, **given: Any) -> Body:
    """The peer as the server `peer`, added by mara over the API."""
    answer = stage.admin.post("mcp/servers", {"name": "peer", "transport": "http", "base_url": peer.url, **given})
    assert answer.status == 201, answer.body
    return dict(answer.body)


def tool_of(name: str = "echo") -> Tool:
    return Tool.objects.select_related("current", "identity", "server").get(name=name)


def approved(stage: Stage, name: str = "echo") -> Tool:
    """The tool, after mara has approved it over the API."""
    tool = tool_of(name)
    assert tool.current
    given = {"definition_hash": tool.current.hash, "reason": "For the test"}
    answer = stage.admin.post(f"mcp/tools/{tool.pk}/approve", given)
    assert answer.status == 200, answer.body
    return tool_of(name)


def call(caller: Any, name: str = "peer__echo", parameters: Any = None, **rest: Any) -> Reply:
    reply: Reply = caller.post(f"mcp/tools/{name}/call", {"parameters": parameters or {}, **rest})
    return reply


@pytest.fixture
def held(open_stage: Stage, peer: Peer) -> Stage:
    """The bot holds echo, approved; other is nobody's."""
    added(open_stage, peer)
    approved(open_stage)
    cast.tool_grant(open_stage.bot, tool_of().identity)
    return open_stage


def row(answer: Reply) -> InvocationLog:
    return InvocationLog.objects.get(pk=answer.headers["X-Call-ID"])
