"""The log of calls over the API, and what became of one call."""

from datetime import timedelta
from typing import Any

import pytest

from common.db import clock
from common.ids import uuid7
from mcp.approvals import decisions
from mcp.models import Call, CallApproval
from nhi.actors import SYSTEM
from nhi.audit import refusal_limits
from nhi.choices import CallStatus
from nhi.models import InvocationLog, RefusalCount
from tests.api.callers import ABSENT
from tests.api.conftest import Stage
from tests.api.mcp import rows
from tests.api.mcp.conftest import call
from tests.mcp.peer import Peer
from tests.nhi import cast
from tests.record.limits import LIMIT, limited

pytestmark = pytest.mark.capability("AUD-02")
SHOWN = {
    "id", "timestamp", "run_id", "agent_id", "agent_name", "agent_role", "tool_id", "tool_name", "method", "args_hash",
    "redaction_applied", "duration", "status", "error_code", "error_message", "reason", "request_id", "thread_id",
    "session_id", "task_id", "decision_id", "grant_id", "role_id", "chain", "source",
    "calls", "details",
}  # fmt: skip


def test_a_row_says_all_of_it(stage: Stage) -> None:
    kept = rows.keep(stage.mara, stage.bot)
    row = stage.agent.get("mcp/invocations").body["invocations"][0]
    assert set(row) == SHOWN
    wanted = {
        "id": str(kept.call.pk),
        "agent_id": str(stage.bot.pk),
        "agent_name": "bot",
        "tool_name": "kept",
        "method": "echo",
        "duration": 7.5,
        "status": "success",
        "reason": "",
        "chain": [{"id": str(stage.bot.pk), "name": "bot"}],
        "source": "192.0.2.7",
    }
    assert {name: row[name] for name in wanted} == wanted
    assert row["timestamp"].endswith("Z")
    assert stage.agent.get(f"mcp/invocations/{row['id']}").body == row


def test_everybody_sees_their_own(stage: Stage) -> None:
    kept = rows.keep(stage.mara, stage.bot)
    for caller in (stage.admin, stage.agent, stage.person("ada", "auditor"), stage.person("olga", "operator")):
        assert len(caller.get("mcp/invocations").body["invocations"]) == 1
    guest = stage.person("guest")
    for stranger in (stage.stranger, guest):
        assert stranger.get("mcp/invocations").body == {"invocations": [], "next_cursor": None}
        for path in ("invocations", "calls"):
            assert stranger.get(f"mcp/{path}/{kept.call.pk}").is_refused(404, "NotFound", "not_found")
    cast.user_grant(stage.bot, cast.user("guest"), "manage")
    assert len(guest.get("mcp/invocations").body["invocations"]) == 1
    assert guest.get(f"mcp/calls/{kept.call.pk}").status == 200


def test_it_is_filtered_and_turned_by_cursor(stage: Stage) -> None:
    kept = rows.keep(stage.mara, stage.bot)
    now = clock.database_now()
    request = uuid7()
    for age in range(1, 6):
        rows.logged(
            stage.bot, kept.tool, at=now - timedelta(minutes=age), status=CallStatus.ERROR, reason="upstream",
            error_code="ExecutionFailed", request_id=request,
        )  # fmt: skip
    found, cursor = [], ""
    while cursor is not None:
        page = stage.admin.get("mcp/invocations", limit=2, **({"cursor": cursor} if cursor else {})).body
        found += [row["timestamp"] for row in page["invocations"]]
        cursor = page["next_cursor"]
    assert len(found) == 6
    assert found == sorted(found, reverse=True)
    since = (now - timedelta(minutes=2, seconds=30)).isoformat()
    queries: list[tuple[dict[str, Any], int]] = [
        ({"agent_id": str(stage.bot.pk)}, 6), ({"agent_id": ABSENT}, 0), ({"tool_name": "kept"}, 6),
        ({"tool_name": "x"}, 0), ({"method": "echo"}, 6), ({"status": "error"}, 5), ({"status": "success"}, 1),
        ({"reason": "upstream"}, 5), ({"request_id": str(request)}, 5), ({"run_id": str(request)}, 0),
        ({"run_id": str(kept.call.pk)}, 1),
        ({"since": since}, 3), ({"until": since}, 3), ({"unknown": "x"}, 6),
    ]  # fmt: skip
    for query, count in queries:
        assert len(stage.admin.get("mcp/invocations", **query).body["invocations"]) == count, query
    for wrong in ("agent_id", "status", "since", "request_id", "limit", "cursor"):
        assert stage.admin.get("mcp/invocations", **{wrong: "odd"}).fields == [wrong]
    assert stage.admin.get("mcp/invocations", limit=0).fields == ["limit"]


def test_what_became_of_a_call(stage: Stage) -> None:
    kept = rows.keep(stage.mara, stage.bot)
    refused = rows.logged(stage.bot, kept.tool, status=CallStatus.PERMISSION_DENIED, reason="no_grant")
    for row in (kept.call, refused):
        said = stage.agent.get(f"mcp/calls/{row.pk}").body
        wanted = {"call_id": str(row.pk), "status": "done", "outcome": row.status, "tool": "kept__echo"}
        assert {name: said[name] for name in wanted} == wanted
    lease = Call.objects.create(
        agent_id=stage.bot.pk, server_id=kept.server.pk, tool_id=kept.tool.pk, owner=uuid7(),
        deadline=clock.database_now() + timedelta(minutes=1),
        row={"tool_name": "kept", "method": "echo", "timestamp": clock.database_now().isoformat()},
    )  # fmt: skip
    for caller in (stage.agent, stage.admin, stage.person("olga", "operator")):
        said = caller.get(f"mcp/calls/{lease.pk}").body
        assert (said["status"], said["reason"], said["outcome"]) == ("pending", "in_flight", None)
    for stranger in (stage.stranger, stage.person("guest")):
        assert stranger.get(f"mcp/calls/{lease.pk}").is_refused(404, "NotFound")
    assert stage.agent.get(f"mcp/calls/{ABSENT}").is_refused(404, "NotFound")


def test_a_call_that_waits_is_followed_through_its_approval(stage: Stage) -> None:
    kept = rows.keep(stage.mara, stage.bot)
    row = waits(stage, kept, kept.approval)

    def status() -> str:
        return str(stage.agent.get(f"mcp/calls/{row.pk}").body["status"])

    assert status() == "pending"
    decisions.approve(actor=SYSTEM, approval=kept.approval, reason="Fine")
    assert status() == "approved"
    CallApproval.objects.filter(pk=kept.approval.pk).update(expires_at=clock.database_now())
    assert status() == "expired"
    CallApproval.objects.filter(pk=kept.approval.pk).update(state="used", used_by=row.pk)
    assert status() == "used"
    second = rows.waiting(stage.bot, kept.tool)
    decisions.refuse(actor=SYSTEM, approval=second, reason="No")
    said = stage.agent.get(f"mcp/calls/{waits(stage, kept, second).pk}").body
    assert (said["status"], said["approval_id"]) == ("refused", str(second.pk))


def waits(stage: Stage, kept: rows.Kept, approval: CallApproval) -> InvocationLog:
    details = {"approval_id": str(approval.pk)}
    return rows.logged(
        stage.bot, kept.tool, status=CallStatus.PERMISSION_DENIED, reason="approval_required", details=details
    )


@pytest.mark.capability("AUD-02", "AUD-03")
def test_refusals_past_the_limit_are_one_row_with_their_count(held: Stage, peer: Peer, clerk: None) -> None:
    with limited():
        refused = [call(held.stranger) for _ in range(LIMIT + 4)]
        assert ["X-Call-ID" in answer.headers for answer in refused] == [True] * LIMIT + [False] * 4
        RefusalCount.objects.update(minute=clock.database_now() - timedelta(minutes=3))
        refusal_limits.flush_counts()
    shown = held.admin.get("mcp/invocations", reason="no_grant").body["invocations"]
    assert sum(row["calls"] for row in shown) == len(refused)
    [counted] = [row for row in shown if row["details"]]
    assert (counted["details"]["count"], counted["calls"]) == (4, 4)
    assert counted["error_message"] == "4 more calls refused in this minute"
