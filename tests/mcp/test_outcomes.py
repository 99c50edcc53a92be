"""Every way in which a call can end: what the caller is answered and what the one row of the log says, as one table."""

import asyncio
import hashlib
import json
import string
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from zlib import crc32

import pytest
from aiohttp import web
from django.db import connection

from common import clock
from mcp import budgets, gateway, servers
from mcp.choices import BreakerState
from mcp.gateway import Outcome
from mcp.models import Breaker, Budget, Call, CallSlot, Tool
from nhi import credentials, grants, lifecycle, oauth, tokens
from nhi.actors import SYSTEM
from nhi.models import Credential, Identity, InvocationLog, RefusedAuthentication, ToolPermission
from nhi.record import seal
from tests.mcp import peer
from tests.mcp.peer import Json, Peer
from tests.mcp.scene import Scene, run, scene, until
from tests.nhi import cast

pytestmark = [
    pytest.mark.capability("AUD-02", "MCP-07", "NHI-06", "NHI-10"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]
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


@pytest.fixture
def far_side(settings: Any) -> Any:
    with peer.serving(*CASES, "gone", "stopped") as one:
        for tool in one.tools:
            tool["inputSchema"] = SCHEMA.get(tool["name"], tool["inputSchema"])
        one.answers = answers
        settings.EGRESS_ALLOW = frozenset({f"127.0.0.1:{one.port}"})
        yield one


@pytest.fixture
def made(far_side: Peer) -> Scene:
    return scene(far_side.url, agents=["bot", "stranger"], without=["stranger"], breaker={"failure_threshold": 1000})


def test_every_outcome_has_its_answer_and_its_one_row(made: Scene, far_side: Peer) -> None:
    for case in CASES.values():
        case.prepare(made)
    spend_the_quota(made)
    before = set(InvocationLog.objects.values_list("pk", flat=True))
    wrong: list[str] = []
    for name, case in CASES.items():
        outcome = made.call(case.tool or name, case.arguments, agent=case.agent)
        wrong += [f"{name}: {said}" for said in mistakes(case, case.tool or f"peer__{name}", outcome, made, far_side)]
    assert not wrong, "\n".join(wrong)
    rows = InvocationLog.objects.exclude(pk__in=before)
    assert rows.count() == len(CASES), "one row each"
    assert not Call.objects.exists()
    assert not CallSlot.objects.exclude(deadline__gt=clock.database_now() + timedelta(seconds=30)).exists()


def spend_the_quota(made: Scene) -> None:
    assert made.call("quota").status == "success"


def mistakes(case: Case, tool: str, outcome: Outcome, made: Scene, far_side: Peer) -> list[str]:
    row = InvocationLog.objects.filter(pk=outcome.call_id).first()
    if row is None:
        return [f"no row; {outcome}"]
    server, _, method = tool.partition("__")
    role = "role-of-rolebot" if case.agent == "rolebot" else ""
    plain = canonical(case.arguments)
    expected: dict[str, tuple[Any, Any]] = {
        "row": ((row.status, row.reason, row.error_code), case.row),
        "outcome": ((outcome.status, outcome.reason, outcome.error_code), (case.outcome or case.row[0], *case.row[1:])),
        "held": (outcome.held, case.held),
        "message": (bool(outcome.message), case.row[0] != "success"),
        "error_message": (bool(row.error_message), case.row[0] != "success"),
        "server": (row.tool_name, server),
        "method": (row.method, method.translate({0: "\\u0000", 0xD800: "\\ud800"})),
        "hash": (row.args_hash, hashlib.sha256(plain).hexdigest()),
        "seal": (seal.intact(row), True),
        "redaction_applied": (row.redaction_applied, case.redacted),
        "role": (row.agent_role, role),
        "role_id": (row.role_id is not None, bool(role)),
        "grant_id": (row.grant_id is not None, case.held and not role),
        "reached": (str(row.pk) in far_side.call_ids, case.reaches),
        "duration": (0 < row.duration < 5000, True) if case.reaches else (row.duration, 0),
        "retry_after": ((outcome.retry_after or 0) >= 1, case.row[0] == LIMITED or case.row[1] == "breaker_open"),
    }
    return [f"{name} is {found!r}, not {wanted!r}" for name, (found, wanted) in expected.items() if found != wanted]


def canonical(arguments: Json) -> bytes:
    """RFC 8785 of the few things that stand in the table, by another hand."""
    return json.dumps(arguments, sort_keys=True, separators=(",", ":"), ensure_ascii=False).replace("1.0", "1").encode()


def test_a_caller_who_goes_away_leaves_a_row_that_says_so(made: Scene, far_side: Peer) -> None:
    async def leave() -> None:
        asking = made.ask("gone")
        task = asyncio.create_task(gateway.call_tool(asking))
        await until(lambda: len(far_side.calls) == 1, "called")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: far_side.cancelled == 1, "cancelled at the server")

    run(leave())
    [row] = InvocationLog.objects.filter(method="gone")
    assert (row.status, row.reason, row.error_code) == (ERROR, "cancelled", "ExecutionFailed")
    assert seal.intact(row)
    assert not Call.objects.exists()


def test_a_stopped_call_says_why(made: Scene, far_side: Peer) -> None:
    async def stop() -> Outcome:
        task = asyncio.create_task(gateway.call_tool(made.ask("stopped")))
        await until(lambda: len(far_side.calls) == 1, "called")
        await asyncio.to_thread(suspend)
        return await asyncio.wait_for(task, 10)

    def suspend() -> None:
        try:
            bot = Identity.objects.get(name="bot")
            lifecycle.suspend(actor=cast.admin(), identity=bot, reason="It ran wild")
        finally:
            close_connections()

    outcome = run(stop())
    [row] = InvocationLog.objects.filter(method="stopped")
    assert (row.status, row.reason, row.error_code) == (ERROR, "revoked_in_flight", "Unauthorized")
    assert (outcome.status, outcome.reason) == (row.status, row.reason)
    assert far_side.cancelled == 1
    assert not Call.objects.exists()


def close_connections() -> None:
    connection.close()


@pytest.mark.parametrize("shown", ["malformed", "unknown", "revoked", "another's kind"])
def test_nobody_leaves_no_row_and_is_counted(made: Scene, far_side: Peer, shown: str) -> None:
    known = made.made["tokens"]["bot"]
    if shown == "revoked":
        credential = Credential.objects.get(pk=made.made["credentials"]["bot"])
        credentials.revoke(actor=SYSTEM, credential=credential, reason="Leaked")
    bearer = {"malformed": known[:-1], "unknown": forged(known), "revoked": known, "another's kind": "nhi_usr_x_y"}[
        shown
    ]
    outcome = made.call("ok", agent=bearer)
    assert (outcome.status, outcome.error_code) in {("unauthenticated", "Unauthorized"), ("unauthenticated", "")}
    assert not InvocationLog.objects.exists()
    assert far_side.calls == []
    counted = sum(RefusedAuthentication.objects.values_list("count", flat=True))
    assert counted == (shown in {"unknown", "revoked"})


def forged(token: str) -> str:
    """Well formed, and nobody's."""
    prefix, kind, public, secret = token.split("_")
    return signed(f"{prefix}_{kind}_{'z' * len(public)}_{secret[:-6]}")


def signed(body: str) -> str:
    """With the six characters at its end that make a token well formed."""
    number, digits = crc32(body.encode()), ""
    for _ in range(6):
        number, rest = divmod(number, 62)
        digits = (string.digits + string.ascii_uppercase + string.ascii_lowercase)[rest] + digits
    assert tokens.parse(body + digits) is not None
    return body + digits
