"""What the gateway keeps, made without a server that answers: for tests that only look."""

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from common import crypto
from common.db import clock
from common.ids import uuid7
from mcp.choices import Connection
from mcp.gateway.batch import call_approvals
from mcp.limits import breakers, budgets
from mcp.models import Breaker, Budget, CallApproval, HealthReport, Server, Tool
from mcp.tools import catalogue, definitions
from nhi.actors import SYSTEM
from nhi.audit import invocations
from nhi.choices import CallStatus
from nhi.models import Identity, InvocationLog, User


@dataclass
class Kept:
    server: Server
    tool: Tool
    breaker: Breaker
    budget: Budget
    report: HealthReport
    approval: CallApproval
    call: InvocationLog


def keep(owner: User, agent: Identity, name: str = "kept") -> Kept:
    """One of each, of one server that is offline, with one approved tool."""
    server = Server.objects.create(
        name=name, owner=owner, transport="http", base_url="http://127.0.0.1:1/mcp", status=Connection.READY
    )
    listed = {"name": "echo", "description": "Echoes", "inputSchema": {"type": "object"}}
    catalogue.record_listing(actor=SYSTEM, server=server, listed_tools=[listed])
    tool = Tool.objects.select_related("current", "server", "identity").get(server=server)
    assert tool.current
    definitions.approve(actor=SYSTEM, tool=tool, definition_hash=tool.current.hash, reason="For the test")
    report = HealthReport.objects.create(server=server, status="Healthy", handshake_success=True)
    return Kept(
        server=server,
        tool=tool,
        breaker=breakers.ensure_for_server(server),
        budget=budgets.create(actor=SYSTEM, scope="server", target_id=server.pk, daily_quota=5),
        report=report,
        approval=waiting(agent, tool),
        call=logged(agent, tool),
    )


def logged(agent: Identity, tool: Tool, **end: Any) -> InvocationLog:
    row = invocations.begin(
        call_id=uuid7(), at=end.pop("at", None) or clock.database_now(), agent=(agent.pk, agent.name), tool_id=tool.pk,
        tool_name=tool.server.name, method=tool.name, args_hash="0" * 64, request_id=end.pop("request_id", uuid7()),
        source="192.0.2.7", details=end.pop("details", None),
    )  # fmt: skip
    found = InvocationLog(**invocations.end(row, **{"status": CallStatus.SUCCESS, "duration": 7.5, **end}))
    found.save()
    return found


def waiting(agent: Identity, tool: Tool, **changed: Any) -> CallApproval:
    """The agent's owner is who may not decide."""
    arguments = changed.pop("arguments", {"title": "x"})
    approval = CallApproval(
        agent_id=agent.pk, agent_name=agent.name, tool_id=tool.pk, tool_name=str(tool), args_hash=str(uuid7()),
        owner_id=agent.owner_id, expires_at=clock.database_now() + timedelta(minutes=15), **changed,
    )  # fmt: skip
    approval.sealed_arguments = crypto.seal(json.dumps(arguments), place=call_approvals.sealing_place(approval))
    approval.save()
    return approval
