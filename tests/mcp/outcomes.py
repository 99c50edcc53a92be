"""Every way in which a call can end, as one table, and the server that answers it so."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from aiohttp import web

from common.db import clock
from mcp.choices import BreakerState
from mcp.limits import budgets
from mcp.models import Breaker, Budget, CallSlot, Tool
from mcp.servers import lifecycle as servers
from nhi.access import grants
from nhi.actors import SYSTEM
from nhi.authorization import oauth
from nhi.identities import lifecycle
from nhi.models import ToolPermission
from tests.mcp.peer import Json
from tests.mcp.scene import Scene, scene
from tests.nhi import cast

SECRET = "ghp_" + "a1B2c3D4e5" * 3 + "F6a7b8"


@dataclass(frozen=True)
class Case:
    """What is made true before the call, and what comes of it: the outcome's status if it is not the row's."""

    row: tuple[str, str, str]
    prepare: Callable[[Scene], Any] = lambda _: None
    arguments: Json = field(default_factory=dict)
    outcome: str = ""
    held: bool = True
    #: Whether the server heard of it.
    reaches: bool = False
    agent: str = "bot"
    tool: str = ""
    redacted: bool = False


def revoke(name: str) -> Callable[[Scene], None]:
    def cut(scene: Scene) -> None:
        grants.revoke(actor=SYSTEM, grant=grant(scene, name), reason="No longer needed")

    return cut


def grant(scene: Scene, name: str) -> ToolPermission:
    return ToolPermission.objects.get(pk=scene.made["grants"][f"bot {name}"])


def expire(scene: Scene) -> None:
    ends = clock.database_now() - timedelta(seconds=1)
    ToolPermission.objects.filter(pk=grant(scene, "expired").pk).update(
        created_at=ends - timedelta(days=1), expires_at=ends
    )


def in_state(name: str, state: str, **more: Any) -> Callable[[Scene], None]:
    return lambda scene: (Tool.objects.filter(pk=scene.tool(name).pk).update(state=state, **more), None)[1]


def limited_anew(name: str, **limits: Any) -> Callable[[Scene], None]:
    def replace(scene: Scene) -> None:
        grants.change_limits(actor=cast.admin(), grant=grant(scene, name), limits=limits, reason="For the test")

    return replace


def budgeted(name: str, used: Json | None = None, **limits: Any) -> Callable[[Scene], None]:
    def spend(scene: Scene) -> None:
        made = budgets.create(actor=cast.admin(), scope="tool", target_id=scene.tool(name).pk, **limits)
        now = clock.database_now()
        Budget.objects.filter(pk=made.pk).update(
            **{key: now if value == "now" else value for key, value in (used or {}).items()}
        )
        if "concurrency_limit" in limits:
            CallSlot.objects.create(budget_id=made.pk, call_id=made.pk, deadline=now + timedelta(minutes=1))

    return spend


def break_open(scene: Scene) -> None:
    again(scene, "broken")
    Breaker.objects.filter(service_name="broken").update(
        state=BreakerState.OPEN, failure_count=5, last_state_change=clock.database_now()
    )


def switch_off(scene: Scene) -> None:
    made = again(scene, "off")
    servers.disable(actor=cast.acting("oskar", "operator"), server=made.server, reason="For the test")


def again(known: Scene, name: str) -> Scene:
    made = scene(known.server.base_url, server=name, agents=[f"{name}-bot"])
    known.made["tokens"][f"{name}-bot"] = made.made["tokens"][f"{name}-bot"]
    return made


def by_role(known: Scene) -> None:
    made = scene(known.server.base_url, server="roles", agents=["rolebot"], by_role=["rolebot"])
    known.made["tokens"]["rolebot"] = made.made["tokens"]["rolebot"]


def scoped(scene: Scene) -> None:
    secret = scene.made["tokens"]["bot"]
    issued = oauth.exchange(
        client_id=secret.split("_")[2], secret=secret, resource=oauth.rest_resource(), scope="peer.ok"
    )
    scene.made["tokens"]["narrow"] = issued.token


DENIED, LIMITED, ERROR = "permission_denied", "rate_limited", "error"
REFUSED = (ERROR, "upstream", "ExecutionFailed")
CASES: dict[str, Case] = {
    "ok": Case(("success", "", ""), reaches=True, arguments={"b": 1, "a": [1.0, "ä", None]}),
    "secret": Case(("success", "", ""), reaches=True, redacted=True),
    "role": Case(("success", "", ""), by_role, reaches=True, agent="rolebot", tool="roles__ok"),
    "fail": Case((ERROR, "tool_error", "ExecutionFailed"), reaches=True),
    "stranger": Case((DENIED, "no_grant", "NotFound"), agent="stranger", held=False, tool="peer__ok"),
    "unknown-tool": Case((DENIED, "no_grant", "NotFound"), held=False, tool="peer__no__such"),
    "unknown-server": Case((DENIED, "no_grant", "NotFound"), held=False, tool="nothing__ok"),
    "nul": Case((DENIED, "no_grant", "NotFound"), held=False, tool="peer__a\x00b"),
    "half-a-character": Case((DENIED, "no_grant", "NotFound"), held=False, tool="peer__a\ud800b"),
    "revoked": Case((DENIED, "grant_revoked", "Unauthorized"), revoke("revoked")),
    "expired": Case((DENIED, "grant_expired", "Unauthorized"), expire),
    "disabled": Case((DENIED, "server_disabled", "Unauthorized"), switch_off, agent="off-bot", tool="off__ok"),
    "pending": Case((DENIED, "definition_pending", "Unauthorized"), in_state("pending", "pending", approved=None)),
    "changed": Case((DENIED, "definition_changed", "Unauthorized"), in_state("changed", "quarantined")),
    "withdrawn": Case((DENIED, "definition_withdrawn", "Unauthorized"), in_state("withdrawn", "withdrawn")),
    "suspended": Case(
        (DENIED, "target_unusable", "Unauthorized"),
        lambda scene: lifecycle.suspend(
            actor=cast.admin(), identity=scene.tool("suspended").identity, reason="For the test"
        ),
    ),
    "checked": Case((ERROR, "invalid_parameters", "InvalidParameters"), arguments={"count": "many"}),
    "narrowed": Case(
        (DENIED, "parameters_not_allowed", "Unauthorized"),
        limited_anew("narrowed", allowed_parameters={"type": "object", "properties": {"n": {"maximum": 5}}}),
        arguments={"n": 6},
    ),
    "scope": Case((DENIED, "scope_not_allowed", "Unauthorized"), scoped, agent="narrow"),
    "approval": Case(
        (DENIED, "approval_required", "Unauthorized"), limited_anew("approval", requires_approval=True),
        outcome="pending_approval",
    ),
    "quota": Case(
        (LIMITED, "quota_exceeded", "RateLimitExceeded"),
        budgeted("quota", {"day": None}, daily_quota=1),
    ),
    "rate": Case(
        (LIMITED, "rate_exceeded", "RateLimitExceeded"),
        budgeted("rate", {"tokens": 0.0, "tokens_at": "now"}, requests_per_second=0.01),
    ),
    "concurrency": Case(
        (LIMITED, "concurrency_exceeded", "RateLimitExceeded"), budgeted("concurrency", concurrency_limit=1)
    ),
    "breaker": Case((ERROR, "breaker_open", "ExecutionFailed"), break_open, agent="broken-bot", tool="broken__ok"),
    "500": Case(REFUSED, reaches=True),
    "garbage": Case(REFUSED, reaches=True),
    "html": Case(REFUSED, reaches=True),
    "closed": Case(REFUSED, reaches=True),
    "huge": Case(REFUSED, reaches=True),
    "redirect": Case(REFUSED, reaches=True),
    "rpc-error": Case(REFUSED, reaches=True),
    "rpc-callers": Case((ERROR, "invalid_parameters", "InvalidParameters"), reaches=True),
    "hang": Case((ERROR, "timeout", "Timeout"), budgeted("hang", timeout=0.3), reaches=True),
}  # fmt: skip
SCHEMA = {"checked": {"type": "object", "properties": {"count": {"type": "integer"}}}}


async def answers(request: web.Request, message: Json) -> web.StreamResponse:
    name = message["params"]["name"]
    result: Json = {"resultType": "complete", "content": [{"type": "text", "text": "fine"}], "isError": name == "fail"}
    match name:
        case "500":
            return web.Response(status=500, text="out of order")
        case "garbage":
            return web.Response(body=b"\xff\x00{", content_type="application/json")
        case "html":
            return web.Response(text="<!doctype html><title>Welcome</title>", content_type="text/html")
        case "closed":
            assert request.transport is not None
            request.transport.abort()
        case "huge":
            result["content"][0]["text"] = "x" * (20 << 20)
        case "redirect":
            return web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"})
        case "hang" | "gone" | "stopped":
            await asyncio.Event().wait()
        case "secret":
            result["content"][0]["text"] = f"the token is {SECRET}"
        case "rpc-error" | "rpc-callers":
            code = -32603 if name == "rpc-error" else -32602
            said = {"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": "no"}}
            return web.json_response(said)
    return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": result})
