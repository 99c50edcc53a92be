"""Calls that went through the gateway to a server that speaks the real protocol, as the console shows them."""

from typing import Any

import pytest
from django.test import Client

from common import executors
from common.ids import uuid7
from mcp.approvals import decisions
from mcp.gateway import pipeline
from mcp.gateway.types import CallRequest, CallResult
from mcp.limits import budgets
from mcp.models import CallApproval, Tool
from nhi import demo
from nhi.access import grants
from nhi.actors import SYSTEM
from nhi.credentials import credentials, tokens
from nhi.models import InvocationLog
from tests.console.conftest import enter, identity
from tests.console.gateway import add, approve, person, tool_of
from tests.console.reading import text
from tests.mcp.peer import Peer

pytestmark = [pytest.mark.capability("AUD-02", "NHI-14", "MCP-08"), pytest.mark.django_db(transaction=True)]


def browser(name: str) -> Client:
    client = Client()
    enter(client, name)
    return client


def test_what_the_gateway_writes_reads_on_the_pages(upstreams: Peer) -> None:
    demo.seed()
    server = add(upstreams)
    tool = approve(tool_of(server))
    planner = identity("planner")
    token = tokens.parse_known(credentials.issue(actor=SYSTEM, holder=planner).token)

    def call(**arguments: Any) -> CallResult:
        ask = CallRequest(token, "todo", "echo", arguments, request_id=uuid7(), source="127.0.0.1")
        return executors.background_loop.run(pipeline.call_tool(ask), timeout=20)

    refused = call(text="a")
    grants.give_tool(actor=SYSTEM, agent=planner, tool=tool.identity, reason="For the test")
    budgets.create(actor=SYSTEM, scope="agent", target_id=planner.pk, calls_per_hour=2)
    passed = call(text="b")
    Tool.objects.filter(pk=tool.pk).update(requires_approval=True)
    waits = call(text="c")
    mara, tom = browser("mara"), browser("tom")

    page = text(mara, f"/admin/nhi/invocationlog/{refused.call_id}/")
    assert "planner has no grant for todo__echo" in page
    assert "The server is enabled" in page
    page = text(mara, f"/admin/nhi/invocationlog/{passed.call_id}/")
    assert "the server: " in page
    assert "agent planner: 1 left" in page
    assert "Closed, calls flow" in page
    assert "/admin/nhi/toolpermission/" in page
    assert "1 of 2 this hour" in text(mara, "/admin/mcp/budget/")

    approval = CallApproval.objects.get()
    assert approval.pk == waits.call_id
    assert "&quot;text&quot;: &quot;c&quot;" in text(tom, f"/admin/mcp/callapproval/{approval.pk}/")
    assert f"/admin/mcp/callapproval/{approval.pk}/" in text(mara, f"/admin/nhi/invocationlog/{waits.call_id}/")
    decisions.approve(actor=person("tom"), approval=approval, reason="Fine")
    used = call(text="c")
    assert used.status == "success", used
    assert str(used.call_id) in text(tom, f"/admin/mcp/callapproval/{approval.pk}/")
    assert [row["id"] for row in mara.get("/admin/nhi/invocationlog/").context_data["rows"]] == [
        str(pk) for pk in InvocationLog.objects.order_by("-timestamp", "-id").values_list("pk", flat=True)
    ]
    assert text(mara, "/admin/charts/").count("4 calls, 2 refused (50.0 %), 0 errors.")
