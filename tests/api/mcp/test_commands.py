"""Servers from a terminal."""

import io
import json
from typing import Any

import pytest
from django.core.management import call_command

from mcp.models import HealthReport, Server
from nhi.models import AuditEvent
from tests.api.conftest import Stage
from tests.api.mcp.conftest import added, approved
from tests.mcp.peer import Peer

pytestmark = pytest.mark.capability("MCP-03", "MCP-10", "OPS-05")


def told(*arguments: str) -> Any:
    """What a script reads: one JSON object and nothing beside it."""
    out = io.StringIO()
    call_command(*arguments, "--json", stdout=out)
    return json.loads(out.getvalue())


def refused(*arguments: str) -> Any:
    out, said = io.StringIO(), io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command(*arguments, "--json", stdout=out, stderr=said)
    assert ended.value.code == 1
    return json.loads(out.getvalue())


def test_servers_are_listed(stage: Stage, peer: Peer) -> None:
    assert told("mcp_list") == {"servers": []}
    made = added(stage, peer)
    approved(stage)
    listed = told("mcp_list")["servers"][0]
    wanted = {
        "id": made["id"], "name": "peer", "transport": "http", "enabled": True, "status": "Ready", "tools": 2,
        "waiting": 1,
    }  # fmt: skip
    assert {name: listed[name] for name in wanted} == wanted


def test_one_is_tested(stage: Stage, peer: Peer) -> None:
    added(stage, peer)
    found = told("mcp_test", "peer")
    assert (found["tool_name"], found["status"], found["handshake_success"]) == ("peer", "Healthy", True)
    assert found["handshake_latency_ms"] > 0
    assert HealthReport.objects.first().asked_by.endswith(" at the terminal")  # type: ignore[union-attr]  # there is one


def test_one_that_does_not_answer_is_a_finding(stage: Stage, peer: Peer) -> None:
    added(stage, peer)
    Server.objects.update(base_url="http://127.0.0.1:1/mcp")
    found = refused("mcp_test", "peer")
    assert (found["status"], bool(found["error_message"])) == ("Unhealthy", True)


def test_one_is_switched(stage: Stage, peer: Peer) -> None:
    added(stage, peer)
    off = told("mcp_disable", "peer", "--reason", "Noisy")
    assert (off["enabled"], off["status"]) == (False, "Offline")
    assert "disabled already" in refused("mcp_disable", "peer")["message"]
    on = told("mcp_enable", "peer")
    assert (on["enabled"], on["status"]) == (True, "Ready")
    reasons = AuditEvent.objects.filter(event__in=["server.disabled", "server.enabled"]).values_list(
        "reason", flat=True
    )
    assert set(reasons) == {"Noisy", "At the terminal"}


@pytest.mark.parametrize("command", ["mcp_test", "mcp_enable", "mcp_disable"])
def test_an_unknown_one_is_refused(stage: Stage, command: str) -> None:
    assert refused(command, "nowhere") == {
        "error": "invalid",
        "message": "There is no server 'nowhere'.",
        "fields": [{"field": "name", "message": "There is no server 'nowhere'."}],
    }
