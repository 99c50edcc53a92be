"""Calls for the tests of pages: rows as the one writer of the log makes them, and leases of calls under way."""

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from common import canonical_json, crypto
from common.ids import uuid7
from mcp.gateway.batch import call_approvals
from mcp.models import Call, CallApproval, Server, Tool
from nhi.audit import invocations
from nhi.models import Identity, InvocationLog, User
from tests.console.conftest import identity

HASH = "9f2c" * 16


def begun(agent: Identity, server: str, tool: str, *, at: datetime, **more: Any) -> invocations.InvocationRow:
    registered = Identity.objects.filter(name=f"{server}__{tool}").first()
    given: dict[str, Any] = {"request_id": uuid7(), "source": "10.2.0.7", "details": {"door": "rest"}}
    return invocations.begin(
        call_id=uuid7(),
        at=at,
        agent=(agent.pk, agent.name),
        tool_id=registered.pk if registered else None,
        tool_name=server,
        method=tool,
        args_hash=HASH,
        decision_id=uuid7(),
        **{**given, **more},
    )


def call(
    agent: str = "deploy-bot", server: str = "github", tool: str = "create_issue", *, status: str = "success",
    ago: float = 60, end: dict[str, Any] | None = None, grant_id: Any = None, **more: Any,
) -> InvocationLog:  # fmt: skip
    """One row, `ago` seconds old."""
    row = begun(identity(agent), server, tool, at=timezone.now() - timedelta(seconds=ago), **more)
    row["grant_id"] = grant_id
    done = InvocationLog(**invocations.end(row, status=status, **{"duration": 4.2, **(end or {})}))
    done.save()
    return done


def denied(reason: str = "no_grant", **more: Any) -> InvocationLog:
    message = "deploy-bot has no grant for it."
    checks = [["caller", "pass", ""], ["access", "fail", reason], ["budget", "skip", ""]]
    end = {"reason": reason, "error_code": "Unauthorized", "error_message": message, "details": {"decision": checks}}
    return call(status="permission_denied", **{"end": end, **more})


def flight(agent: str = "deploy-bot", server: str = "github", tool: str = "create_issue", *, ago: float = 3) -> Call:
    row = begun(identity(agent), server, tool, at=timezone.now() - timedelta(seconds=ago))
    return Call.objects.create(
        id=row["id"], agent_id=row["agent_id"], server_id=uuid7(), tool_id=row["tool_id"], owner=uuid7(),
        deadline=timezone.now() + timedelta(seconds=30), row=invocations.as_json(row),
    )  # fmt: skip


def registered(server: str = "github", tool: str = "create_issue") -> Tool:
    """What stands behind a tool of the demo."""
    owner = User.objects.get(username="mara")
    made, _ = Server.objects.get_or_create(
        name=server, defaults={"owner": owner, "transport": "http", "base_url": "http://127.0.0.1:9/mcp"}
    )
    return Tool.objects.create(identity=identity(f"{server}__{tool}"), server=made, name=tool)


def asked(
    agent: str = "deploy-bot", tool: str = "github__create_issue", *, arguments: dict[str, Any] | None = None,
    ago: float = 240, **more: Any,
) -> CallApproval:  # fmt: skip
    """A call that waits, as the deciding transaction leaves it behind."""
    caller, at = identity(agent), timezone.now() - timedelta(seconds=ago)
    approval = CallApproval(
        agent_id=caller.pk, agent_name=caller.name, tool_id=identity(tool).pk, tool_name=tool,
        args_hash=uuid7().hex * 2, owner_id=caller.owner_id, asked_at=at,
        expires_at=at + call_approvals.APPROVAL_LIFETIME, **more,
    )  # fmt: skip
    sent = canonical_json.encode(arguments or {"title": "Ship 1.0"}).decode()
    approval.sealed_arguments = crypto.seal(sent, place=call_approvals.sealing_place(approval))
    approval.save(force_insert=True)
    return approval
