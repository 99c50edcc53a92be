"""Agents learn that a server failed, by a code and the request id; what describes this installation is for people."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from asgiref.sync import async_to_sync
from django.db.models import F

from common import egress
from mcp.client import transports
from mcp.models import Server
from nhi.audit import invocations
from nhi.models import InvocationLog
from tests.api.callers import Reply
from tests.api.conftest import Stage
from tests.api.mcp.conftest import call
from tests.mcp.peer import Json, Peer

pytestmark = [
    pytest.mark.capability("NHI-10", "MCP-09"),
    pytest.mark.both_databases,
    pytest.mark.usefixtures("clerk"),
    pytest.mark.django_db(transaction=True),
]
#: A path, a setting's name, an address or a host, an exception of Python's.
OPERATOR_TEXT = re.compile(
    r"/(?:srv|usr|root|home|tmp|opt|work)\b|[A-Z]+_[A-Z_]+|\d+\.\d+\.\d+\.\d+|\.internal|localhost|Errno|Traceback"
)
LEAKY = "Traceback: psycopg.OperationalError at /srv/todo/db.py: DATABASE_URL=postgres://db.internal:5432 refused"


def answering(body: Json | None = None, **response: Any) -> Callable[[Any], None]:
    def set_up(world: "World") -> None:
        async def answer(_: web.Request, message: Json) -> web.StreamResponse:
            if body is None:
                return web.Response(**response)
            return web.json_response({"jsonrpc": "2.0", "id": message["id"], **body})

        world.peer.answers = answer

    return set_up


def not_in_egress(world: "World") -> None:
    world.settings.EGRESS_ALLOW = frozenset()


def nothing_listens(world: "World") -> None:
    world.settings.EGRESS_ALLOW = frozenset({"127.0.0.1:9"})
    Server.objects.update(base_url="http://127.0.0.1:9/mcp", revision=F("revision") + 1)


def no_owner(world: "World") -> None:
    way = {"transport": "stdio", "command": "/usr/bin/secret-tool", "args": [], "base_url": ""}
    Server.objects.update(**way, revision=F("revision") + 1)


@dataclass
class World:
    stage: Stage
    peer: Peer
    settings: Any


@dataclass(frozen=True)
class Case:
    set_up: Callable[[World], None]
    #: What the caller reads.
    public: str
    #: What a person finds, and the caller does not.
    operator: str = ""
    reason: str = "upstream"
    more: Json = field(default_factory=dict)


CASES = {
    "outside egress": Case(not_in_egress, "cannot be reached. The call was not sent.", "EGRESS_ALLOW"),
    "nothing listens": Case(nothing_listens, "cannot be reached. The call was not sent.", "No connection"),
    "no process": Case(no_owner, "is not running. The call was not sent."),
    "401": Case(answering(status=401), "does not accept Gatehouse's credentials.", "credentials (401)"),
    "500": Case(answering(status=500, text=LEAKY), "refused the request or failed. The call may", "status 500"),
    "redirect": Case(
        answering(status=302, headers={"Location": "http://db.internal:1/x"}), "refused the request or failed.", "302"
    ),
    "no JSON": Case(answering(text=LEAKY, content_type="text/html"), "breaks the protocol.", "not with JSON"),
    "another id": Case(answering({"id": 4711, "result": {}}), "breaks the protocol."),
    "error of the server": Case(
        answering({"error": {"code": -32603, "message": LEAKY}}), "internal error (JSON-RPC code -32603)", "/srv/todo"
    ),
}


@pytest.fixture
def world(held: Stage, peer: Peer, settings: Any) -> Iterator[World]:
    yield World(held, peer, settings)
    async_to_sync(transports.close_all)()
    async_to_sync(egress.close_session)()


@pytest.mark.parametrize("name", CASES)
def test_a_caller_reads_no_operators_text_and_a_person_does(world: World, name: str) -> None:
    case = CASES[name]
    case.set_up(world)
    answer = call(world.stage.agent)
    assert answer.is_refused(502, "ExecutionFailed", case.reason)
    for_agent, for_person = answer.body["message"], message_of(world.stage.admin, answer)
    assert case.public in for_agent
    assert answer.body["request_id"] in for_agent
    assert not OPERATOR_TEXT.search(for_agent), for_agent
    assert case.operator in for_person
    assert case.operator not in for_agent or not case.operator
    assert message_of(world.stage.agent, answer) == for_agent, "its own log says no more"
    listed = world.stage.agent.get("mcp/invocations", request_id=answer.body["request_id"]).body["invocations"]
    assert [row["error_message"] for row in listed] == [for_agent]


def test_the_tools_own_words_go_through(world: World) -> None:
    said = {"content": [{"type": "text", "text": "No file /srv/todo/list"}], "isError": True, "resultType": "complete"}
    answering({"result": said})(world)
    answer = call(world.stage.agent)
    assert answer.is_refused(502, "ExecutionFailed", "tool_error")
    assert answer.body["details"]["result"]["content"][0]["text"] == "No file /srv/todo/list"
    assert message_of(world.stage.agent, answer) == "No file /srv/todo/list"


def test_what_the_server_says_of_the_arguments_goes_through(world: World) -> None:
    answering({"error": {"code": -32602, "message": "x must be even"}})(world)
    answer = call(world.stage.agent)
    assert answer.is_refused(400, "InvalidParameters", "invalid_parameters")
    assert answer.body["message"] == "x must be even"


def test_a_row_of_the_version_before_is_told_without_it(held: Stage) -> None:
    """Such rows hold the operator's text and no sentence for their caller."""
    answer = call(held.agent)
    row = InvocationLog.objects.get(pk=answer.headers["X-Call-ID"])
    old = invocations.begin(
        call_id=row.request_id, at=row.timestamp, agent=(row.agent_id, row.agent_name), tool_id=row.tool_id,
        tool_name=row.tool_name, method=row.method, args_hash=row.args_hash, request_id=row.request_id, source="",
    )  # fmt: skip
    done = invocations.end(
        old, status="error", reason="upstream", error_code="ExecutionFailed",
        error_message="/usr/bin/python is not in the file that EXECUTABLE_ALLOWLIST names.",
    )  # fmt: skip
    InvocationLog.objects.create(**done)
    for_agent = held.agent.get(f"mcp/invocations/{row.request_id}").body["error_message"]
    assert not OPERATOR_TEXT.search(for_agent), for_agent
    assert str(row.request_id) in for_agent
    assert "EXECUTABLE_ALLOWLIST" in held.admin.get(f"mcp/invocations/{row.request_id}").body["error_message"]


def test_automation_that_reads_the_log_reads_all_of_it(world: World) -> None:
    not_in_egress(world)
    answer = call(world.stage.agent)
    assert "EGRESS_ALLOW" in message_of(world.stage.automation("auditor"), answer)


def message_of(reader: Any, answer: Reply) -> str:
    row = reader.get(f"mcp/invocations/{answer.headers['X-Call-ID']}")
    assert row.status == 200, row.body
    return str(row.body["error_message"])
