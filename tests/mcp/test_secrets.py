"""A server's secrets come back from it in every place it can write to, and are found in none that Gatehouse shows."""

import base64
import json
import logging
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import web
from django.apps import apps
from django.core.management import call_command
from django.test import Client

from mcp.client import transports
from mcp.gateway.types import CallResult
from mcp.models import Server, ServerSecret, Tool
from mcp.servers import health, lifecycle, secrets
from mcp.tools import catalogue, definitions
from nhi.access import grants
from nhi.actors import SYSTEM
from nhi.models import Identity, InvocationLog
from tests.mcp import peer
from tests.mcp.peer import Json, Peer
from tests.mcp.scene import Scene, scene
from tests.nhi import cast
from tests.owner.stage import Owner

pytestmark = [
    pytest.mark.capability("AUD-07", "MCP-01", "MCP-03"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]
#: Of no shape that any pattern knows.
CANARY = "plain-canary/of ünknown+shape"
DRESSES = (
    CANARY, json.dumps(CANARY)[1:-1], quote(CANARY), quote(CANARY, safe=""),
    base64.b64encode(CANARY.encode()).decode().rstrip("="), CANARY.encode().hex(),
)  # fmt: skip
#: Where a tool may put it, and what it then answers.
PLACES = (
    "text", "dressed", "structured", "name", "resource", "tool-error", "rpc-error", "rpc-callers", "status", "meta",
    "progress", "edge", "html", "redirect", "content-type",
)  # fmt: skip


def hits(text: str) -> list[str]:
    return [dress for dress in DRESSES if dress in text]


@pytest.fixture
def far_side(settings: Any) -> Iterator[Peer]:
    with peer.serving(*PLACES) as one:
        one.answers = leaking
        settings.EGRESS_ALLOW = frozenset({f"127.0.0.1:{one.port}"})
        yield one


async def leaking(request: web.Request, message: Json) -> web.StreamResponse:
    heard, place = request.headers["X-Key"], message["params"]["name"]
    assert heard == CANARY, "the server is sent its own secret"
    if place in REFUSALS:
        return REFUSALS[place](heard)
    answer: Json = {"jsonrpc": "2.0", "id": message["id"]}
    if place in ERRORS:
        answer["error"] = {"code": ERRORS[place], "message": heard, "data": {"key": heard}}
        return web.json_response(answer)
    answer["result"] = {"resultType": "complete", "content": text("fine"), "isError": False, **result(place, heard)}
    return await streamed(request, message, answer) if place in {"progress", "edge"} else web.json_response(answer)


def text(said: str) -> list[Json]:
    return [{"type": "text", "text": said}]


ERRORS = {"rpc-error": -32000, "rpc-callers": -32602}
REFUSALS: dict[str, Callable[[str], web.Response]] = {
    "status": lambda heard: web.Response(status=500, reason="Key refused", text=heard),
    "html": lambda heard: web.Response(text=f"<title>{heard}</title>", content_type="text/html"),
    "content-type": lambda heard: web.Response(
        body=heard.encode(), headers={"Content-Type": f"text/{quote(heard, safe='')}"}
    ),
    "redirect": lambda heard: web.Response(status=302, headers={"Location": f"/{quote(heard)}?key={quote(heard)}"}),
}


def result(place: str, heard: str) -> Json:
    inside = {"uri": f"file:///{quote(heard)}", "text": heard, "mimeType": "text/plain"}
    said: dict[str, Json] = {
        "text": {"content": text(f"My key is {heard}.")},
        "dressed": {"content": text(" ".join(DRESSES))},
        "structured": {"structuredContent": {"deep": [{"key": heard}], "json": json.dumps({"key": heard})}},
        "name": {"structuredContent": {heard: 1}},
        "resource": {"content": [{"type": "resource", "resource": inside}]},
        "tool-error": {"isError": True, "content": text(f"Refused {heard}")},
        "meta": {"_meta": {"key": heard}},
        "progress": {"content": text(heard)},
        "edge": {"content": text(heard)},
    }
    return said[place]


async def streamed(request: web.Request, message: Json, answer: Json) -> web.StreamResponse:
    """Cut in two in the midst of the secret."""
    stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await stream.prepare(request)
    token = message["params"]["_meta"].get("progressToken")
    if token is not None:
        params = {"progressToken": token, "progress": 1, "message": f"Signing in with {CANARY}"}
        told = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
        await stream.write(f"data: {json.dumps(told)}\n\n".encode())
    raw = json.dumps(answer, ensure_ascii=False).encode()
    at = raw.index(b"canary") + 3
    await stream.write(b"data: " + raw[:at])
    await stream.write(raw[at:] + b"\n\n")
    await stream.write_eof()
    return stream


@pytest.fixture
def made(far_side: Peer) -> Scene:
    """The secret is set after the world was made, and each definition approved anew."""
    known = scene(far_side.url, breaker={"failure_threshold": 1000})
    far_side.said_of_itself = {
        "serverInfo": {"name": f"peer {CANARY}", "version": "1", "title": CANARY},
        "instructions": f"Use {CANARY} to sign in.",
        "capabilities": {"tools": {}, CANARY: {}},
    }
    far_side.tools[0]["description"] = f"Sends {CANARY} along."
    far_side.tools[1]["inputSchema"] = {"type": "object", "properties": {CANARY: {"default": CANARY}}}
    vera, tom = cast.admin("vera"), cast.admin("tom")
    lifecycle.change(
        actor=vera, server=known.server, headers={"X-Key": "${KEY}"},
        secret_values={"KEY": CANARY},
    )  # fmt: skip
    for tool in Tool.objects.select_related("current"):
        assert tool.current is not None
        definitions.approve(actor=tom, tool=tool, definition_hash=tool.current.hash, reason="Looked at it")
    return known


def dump() -> str:
    """The whole database as text."""

    rows = {model._meta.label: list(model._default_manager.values()) for model in apps.get_models()}
    return "\n".join(json.dumps(found, cls=Plain, ensure_ascii=False) for found in rows.values())


class Plain(json.JSONEncoder):
    def default(self, o: Any) -> str:
        return o.hex() if isinstance(o, bytes | memoryview) else str(o)


def test_no_place_a_server_writes_to_shows_its_secret(
    made: Scene, far_side: Peer, caplog: Any, capfd: Any, settings: Any
) -> None:
    caplog.set_level(logging.DEBUG)
    told: list[Json] = []

    async def heard(progress: Json) -> None:
        told.append(progress)

    wrong: list[str] = []
    for place in PLACES:
        outcome = made.call(place, on_progress=heard)
        row = InvocationLog.objects.get(pk=outcome.call_id)
        wrong += [f"{place}: {hit}" for hit in hits(shown(outcome))]
        expected = place not in {"status", "html"}
        if place in {"redirect", "content-type"}:
            continue
        if row.redaction_applied != expected:
            wrong.append(f"{place}: redaction_applied is {row.redaction_applied}")
    assert not wrong, "\n".join(wrong)
    assert len(told) >= 1, "progress was told"
    assert not hits(json.dumps(told, ensure_ascii=False))
    health.check(server=made.server)
    health.refresh(server=made.server)
    assert not hits(dump())
    assert not hits(caplog.text)
    captured = capfd.readouterr()
    assert not hits(captured.out + captured.err)
    assert "[REDACTED" in made.server.instructions


def shown(outcome: CallResult) -> str:
    return json.dumps({"result": outcome.result, "message": outcome.message}, ensure_ascii=False)


def test_no_page_and_no_answer_of_the_api_shows_it(made: Scene, far_side: Peer) -> None:
    for place in ("text", "rpc-error", "tool-error"):
        made.call(place)
    health.check(server=made.server)
    cast.admin("mara")
    client = Client(headers={"host": "127.0.0.1"})
    mara = cast.user("mara")
    client.force_login(mara)
    token = people_token("mara")
    server, tools = made.made["server"], made.made["tools"]
    api = [
        "mcp/servers", f"mcp/servers/{server}", "mcp/tools", *(f"mcp/tools/{tool}" for tool in tools.values()),
        "mcp/invocations", "mcp/health-reports", "mcp/breakers", "audit-events",
    ]  # fmt: skip
    for path in api:
        reply = client.get(f"/api/nhi/{path}", headers={"authorization": f"Bearer {token}"})
        assert reply.status_code == 200, (path, reply.content)
        assert not hits(reply.content.decode()), path
    pages = [
        "server/", *(f"server/{server}/{tab}" for tab in ("", "tools/", "health/", "secrets/", "calls/", "changes/")),
        "tool/", *(f"tool/{tools['text']}/{tab}" for tab in ("", "versions/", "calls/", "changes/")),
        f"server/{server}/change/",
    ]  # fmt: skip
    for path in pages:
        page = client.get(f"/admin/mcp/{path}")
        assert page.status_code == 200, (path, page.status_code)
        assert not hits(page.content.decode()), path


def people_token(name: str) -> str:
    out = StringIO()
    call_command("issue_user_token", name, "--json", stdout=out)
    return str(json.loads(out.getvalue())["token"])


def test_a_server_that_never_answers_well_tells_nothing_either(far_side: Peer, made: Scene, caplog: Any) -> None:
    """Its refusals quote what they were sent: in a status, an error of the protocol, a place it leads to."""
    caplog.set_level(logging.DEBUG)
    said = iter(["error", "page", "redirect", "refused"])

    async def quoting(request: web.Request) -> web.StreamResponse:
        heard = request.headers["X-Key"]
        message = await request.json()
        match far_side.mode:
            case "error":
                return web.json_response(
                    {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32000, "message": heard}}
                )
            case "page":
                return web.Response(text=heard, content_type="text/html")
            case "redirect":
                return web.Response(status=302, headers={"Location": f"/{quote(heard)}"})
        return web.Response(status=401, text=heard)

    far_side.refuses = quoting
    for mode in said:
        far_side.mode = mode
        report = health.check(server=made.server)
        assert not report.handshake_success, mode
    far_side.refuses = None
    assert not hits(dump())
    assert not hits(caplog.text)


@pytest.fixture
def owner(tmp_path: Path, monkeypatch: Any) -> Iterator[Owner]:
    started = Owner(tmp_path / "owner")
    started.start()
    monkeypatch.setitem(transports.TRANSPORTS, "stdio", started.transport)
    try:
        yield started
    finally:
        started.stop()


def test_nor_does_a_process_that_is_given_it_in_its_environment(owner: Owner, made: Scene, caplog: Any) -> None:
    caplog.set_level(logging.DEBUG)
    server = Server.objects.create(
        name="puppet", owner=cast.user("olga", "operator"), transport="stdio", command=str(owner.puppet),
        env={"KEY": "${KEY}"}, created_by_name="mara",
    )  # fmt: skip
    secret = ServerSecret(server=server, name="KEY", set_by_name="mara")
    secrets.seal_secret(secret, CANARY)
    secret.save()
    owner.launches[str(server.pk)] = {
        "argv": [str(owner.puppet)], "env": {"KEY": CANARY}, "revision": server.revision, "enabled": True,
    }  # fmt: skip
    owner.write()
    health.refresh(server=server)
    server.refresh_from_db()
    assert server.status == "Ready", server.status_reason
    bot, names = Identity.objects.get(name="bot"), ("environment", "complain", "last_words")
    # It lists none of those that it has.
    catalogue.record_listing(actor=SYSTEM, server=server, listed_tools=[peer.tool(name) for name in names])
    for tool in Tool.objects.filter(server=server, name__in=names).select_related("current", "identity"):
        assert tool.current is not None
        definitions.approve(
            actor=cast.admin("tom"), tool=tool, definition_hash=tool.current.hash, reason="Looked at it"
        )
        grants.give_tool(actor=SYSTEM, agent=bot, tool=tool.identity, reason="For the test")
    environment = made.call("puppet__environment")
    assert environment.status == "success", environment
    assert "REDACTED" in shown(environment)
    assert not hits(shown(environment))
    complained = made.call("puppet__complain", {"text": f"cannot sign in with {CANARY}\n"})
    assert complained.status == "success"
    assert not hits(shown(complained))
    ended = made.call("puppet__last_words")
    assert not hits(shown(ended))
    assert not hits(dump())
    assert not hits(caplog.text)
