"""Every way in which a call can end: what the caller is answered and what the one row of the log says, as one table."""

import asyncio
import hashlib
import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from common.db import clock
from mcp.gateway import pipeline
from mcp.gateway.types import CallResult
from mcp.models import Call, CallSlot
from nhi.actors import SYSTEM
from nhi.audit import row_macs
from nhi.credentials import credentials, tokens
from nhi.identities import lifecycle
from nhi.models import Credential, Identity, InvocationLog, RefusedAuthentication
from tests.mcp import peer
from tests.mcp.outcomes import CASES, ERROR, LIMITED, SCHEMA, Case, answers
from tests.mcp.peer import Json, Peer
from tests.mcp.scene import Scene, run, scene, until
from tests.nhi import cast
from tests.nhi.tokens import forged

pytestmark = [
    pytest.mark.capability("AUD-02", "MCP-07", "NHI-06", "NHI-10"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]


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


def mistakes(case: Case, tool: str, outcome: CallResult, made: Scene, far_side: Peer) -> list[str]:
    row = InvocationLog.objects.filter(pk=outcome.call_id).first()
    if row is None:
        return [f"no row; {outcome}"]
    server, _, method = tool.partition("__")
    role = "role-of-rolebot" if case.agent == "rolebot" else ""
    plain = canonical(case.arguments)
    expected: dict[str, tuple[Any, Any]] = {
        "row": ((row.status, row.reason, row.error_code), case.row),
        "outcome": ((outcome.status, outcome.reason, outcome.error_code), (case.outcome or case.row[0], *case.row[1:])),
        "held": (outcome.tool_is_visible, case.held),
        "message": (bool(outcome.message), case.row[0] != "success"),
        "operator_message": (outcome.operator_message, None),
        "error_message": (bool(row.error_message), case.row[0] != "success"),
        "server": (row.tool_name, server),
        "method": (row.method, method.translate({0: "\\u0000", 0xD800: "\\ud800"})),
        "hash": (row.args_hash, hashlib.sha256(plain).hexdigest()),
        "seal": (row_macs.is_intact(row), True),
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
        task = asyncio.create_task(pipeline.call_tool(asking))
        await until(lambda: len(far_side.calls) == 1, "called")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: far_side.cancelled == 1, "cancelled at the server")

    run(leave())
    [row] = InvocationLog.objects.filter(method="gone")
    assert (row.status, row.reason, row.error_code) == (ERROR, "cancelled", "ExecutionFailed")
    assert row_macs.is_intact(row)
    assert not Call.objects.exists()


def test_a_stopped_call_says_why(made: Scene, far_side: Peer) -> None:
    async def stop() -> CallResult:
        task = asyncio.create_task(pipeline.call_tool(made.ask("stopped")))
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


@pytest.mark.parametrize("shown", ["unknown", "revoked", "a person's"])
def test_nobody_leaves_no_row_and_is_counted(made: Scene, far_side: Peer, shown: str) -> None:
    known = made.made["tokens"]["bot"]
    if shown == "revoked":
        credential = Credential.objects.get(pk=made.made["credentials"]["bot"])
        credentials.revoke(actor=SYSTEM, credential=credential, reason="Leaked")
    persons = tokens.make_credential_token("usr").token
    bearer = {"unknown": forged(known), "revoked": known, "a person's": persons}[shown]
    outcome = made.call("ok", agent=bearer)
    assert (outcome.status, outcome.error_code) in {("unauthenticated", "Unauthorized"), ("unauthenticated", "")}
    assert not InvocationLog.objects.exists()
    assert far_side.calls == []
    counted = sum(RefusedAuthentication.objects.values_list("count", flat=True))
    assert counted == (shown in {"unknown", "revoked"})
