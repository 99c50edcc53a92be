"""Servers over the API: added, read, changed, met, switched."""

import json
from typing import Any

import pytest

from mcp.models import Server, Tool
from tests.api.callers import ABSENT, calling
from tests.api.conftest import Stage
from tests.api.mcp.conftest import Body, added
from tests.mcp.peer import Peer, tool
from tests.nhi import cast
from tests.services.postgresql import free_port

pytestmark = pytest.mark.capability("MCP-01", "MCP-03", "MCP-11")
SECRET = "canary-4fJ82kdL0qPz"
METRICS = {
    "handshake_latency_ms", "invocation_count", "success_count", "error_count", "last_invocation_time",
    "average_latency_ms", "p95_ms", "in_flight",
}  # fmt: skip


def test_a_server_is_added_and_met(stage: Stage, peer: Peer) -> None:
    made = added(stage, peer, timeout="12s", headers={"X-Key": "${KEY}"}, secrets={"KEY": SECRET})
    wanted = {
        "name": "peer",
        "server_name": "peer",
        "transport": "http",
        "transport_type": "http",
        "base_url": peer.url,
        "timeout": "12s",
        "headers": {"X-Key": "${KEY}"},
        "secrets": ["KEY"],
        "enabled": True,
        "status": "Ready",
        "connection_state": "connected",
        "discovered_tools": ["echo", "other"],
        "last_error": None,
        "protocol_version": "2026-07-28",
        "owner": {"id": str(stage.mara.pk), "username": "mara"},
    }
    assert {name: made[name] for name in wanted} == wanted
    assert made["last_health_check"].endswith("Z")
    assert made["initialization_time"] > 0
    assert set(made["metrics"]) == METRICS
    assert made["metrics"]["handshake_latency_ms"] > 0
    assert made["metrics"]["invocation_count"] == 0
    assert stage.admin.get(f"mcp/servers/{made['id']}").body == made
    listed = stage.admin.get("mcp/servers").body
    assert (listed["total"], listed["servers"][0]) == (1, {k: v for k, v in made.items() if k != "metrics"})


def test_one_that_does_not_answer_is_added_as_offline(stage: Stage, settings: Any) -> None:
    port = free_port()
    settings.EGRESS_ALLOW = frozenset({f"127.0.0.1:{port}"})
    given = {"name": "silent", "transport": "http", "base_url": f"http://127.0.0.1:{port}/mcp", "timeout": 5}
    made = stage.admin.post("mcp/servers", given)
    assert made.status == 201
    assert (made.body["status"], made.body["connection_state"]) == ("Offline", "disconnected")
    assert made.body["status_reason"]
    assert (made.body["timeout"], made.body["discovered_tools"], made.body["last_health_check"]) == ("5s", [], None)
    tested = stage.admin.post(f"mcp/servers/{made.body['id']}/test")
    assert (tested.status, tested.body["status"], tested.body["handshake_success"]) == (200, "Unhealthy", False)
    assert tested.body["error_message"]
    refused = stage.admin.post(f"mcp/servers/{made.body['id']}/refresh")
    assert refused.is_refused(502, "ExecutionFailed", "upstream")


WRONG: list[tuple[Body, list[str]]] = [
    ({"transport": "carrier-pigeon"}, ["transport"]),
    ({"timeout": "soon"}, ["timeout"]),
    ({"timeout": True}, ["timeout"]),
    ({"timeout": 0}, ["timeout"]),
    ({"timeout": "9999s"}, ["timeout"]),
    ({"name": "Peer Server"}, ["name"]),
    ({"name": "tools"}, ["name"]),
    ({"name": "has__two"}, ["name"]),
    ({"command": "/bin/sh"}, ["command"]),
    ({"args": "x"}, ["args"]),
    ({"env": {"A": 1}}, ["env.A"]),
    ({"headers": {"Host": "x"}}, ["headers.Host"]),
    ({"headers": {"X-A": "${NOPE}"}}, ["headers.X-A"]),
    ({"base_url": "http://10.0.0.1/mcp"}, ["base_url"]),
    ({"base_url": "http://169.254.169.254/latest"}, ["base_url"]),
    ({"base_url": "file:///etc/passwd"}, ["base_url"]),
    ({"secrets": {"A-B": "x"}}, ["secrets.A-B"]),
    ({"secrets": {"A": ""}}, ["secrets.A"]),
    ({"schema_version": "one"}, ["schema_version"]),
    ({"owner_id": ABSENT}, ["owner_id"]),
    ({"enabled": True}, ["enabled"]),
    ({"status": "Ready"}, ["status"]),
    ({"transport": "stdio"}, ["base_url", "command"]),
    ({"name": "", "timeout": 0, "base_url": ""}, ["name", "timeout", "base_url"]),
]


@pytest.mark.parametrize("wrong, fields", WRONG, ids=str)
def test_what_is_wrong_is_named_all_at_once(stage: Stage, peer: Peer, wrong: Body, fields: list[str]) -> None:
    given = {"name": "peer", "transport": "http", "base_url": peer.url, **wrong}
    answer = stage.admin.post("mcp/servers", given)
    assert answer.is_refused(400, "InvalidParameters")
    assert answer.fields == fields
    assert not Server.objects.exists()


def test_a_name_is_taken_once(stage: Stage, peer: Peer) -> None:
    added(stage, peer)
    again = stage.admin.post("mcp/servers", {"name": "peer", "transport": "http", "base_url": peer.url})
    assert again.is_refused(409, "Conflict", "duplicate")


def test_a_change_is_met_again(stage: Stage, peer: Peer) -> None:
    made = added(stage, peer, secrets={"KEY": SECRET, "OLD": SECRET})
    place = f"mcp/servers/{made['id']}"
    changed = stage.admin.patch(place, {"timeout": "3s", "description": "A peer", "owner_id": str(stage.olga.pk)})
    assert changed.status == 200
    said = {name: changed.body[name] for name in ("timeout", "description", "owner")}
    assert said == {"timeout": "3s", "description": "A peer", "owner": {"id": str(stage.olga.pk), "username": "olga"}}
    changed = stage.admin.patch(place, {"secrets": {"OLD": None, "NEW": SECRET}})
    assert changed.body["secrets"] == ["KEY", "NEW"]
    gone = stage.admin.patch(place, {"base_url": peer.url + "/nowhere"})
    assert (gone.status, gone.body["base_url"]) == (200, peer.url + "/nowhere")
    assert gone.body["last_error"]
    assert stage.admin.patch(place, {"name": "other"}).fields == ["name"]
    assert stage.admin.patch(place, {"secrets": {"KEY": 5}}).fields == ["secrets.KEY"]
    assert stage.admin.patch(place, {"transport": "stdio"}).is_refused(400, "InvalidParameters")


def test_it_is_tested_refreshed_and_switched(stage: Stage, peer: Peer) -> None:
    place = f"mcp/servers/{added(stage, peer)['id']}"
    olga = stage.person("olga", "operator")
    tested = olga.post(f"{place}/test")
    assert tested.status == 200
    wanted = {"tool_name": "peer", "status": "Healthy", "handshake_success": True, "error_message": None}
    assert {name: tested.body[name] for name in wanted} == wanted
    assert tested.body["handshake_latency_ms"] > 0
    assert (tested.body["protocol_version"], tested.body["server_capabilities"]) == ("2026-07-28", ["tools"])
    assert set(tested.body) == {*wanted, "timestamp", "handshake_latency_ms", "server_capabilities", "protocol_version"}
    peer.tools = [tool("echo", type="object", required=["x"]), tool("third"), tool("no good")]
    refreshed = olga.post(f"{place}/refresh").body
    said = {name: refreshed[name] for name in ("added", "changed", "withdrawn", "unchanged")}
    assert said == {"added": ["third"], "changed": ["echo"], "withdrawn": ["other"], "unchanged": 0}
    assert [one["name"] for one in refreshed["refused"]] == ["no good"]
    assert olga.post(f"{place}/refresh").body["unchanged"] == 2
    off = olga.post(f"{place}/disable", {"reason": "Noisy"})
    assert (off.status, off.body["enabled"], off.body["status"]) == (200, False, "Offline")
    assert olga.post(f"{place}/disable", {"reason": "Noisy"}).is_refused(409, "Conflict")
    on = olga.post(f"{place}/enable", {"reason": "Quiet again"})
    assert (on.status, on.body["enabled"], on.body["status"]) == (200, True, "Ready")
    assert olga.post(f"{place}/enable", {"reason": ""}).fields == ["reason"]
    for verb in ("test", "refresh"):
        assert olga.post(f"{place}/{verb}", {"force": True}).fields == ["force"]


@pytest.mark.capability("MCP-10")
def test_every_check_leaves_a_report(stage: Stage, peer: Peer) -> None:
    made = added(stage, peer)
    stage.admin.post(f"mcp/servers/{made['id']}/test")
    answer = stage.admin.get("mcp/health-reports", server_id=made["id"])
    assert answer.body["total"] == 2
    newest, first = answer.body["health_reports"]
    assert (newest["asked_by"], first["asked_by"]) == ("mara", "")
    assert {newest["server_id"], first["server_id"]} == {made["id"]}
    assert newest["timestamp"] >= first["timestamp"]
    assert stage.admin.get("mcp/health-reports", server_id=ABSENT).body["total"] == 0
    assert stage.admin.get("mcp/health-reports", status="Unhealthy").body["total"] == 0
    assert stage.admin.get("mcp/health-reports", server_id="x").fields == ["server_id"]
    assert stage.agent.get("mcp/health-reports").body["total"] == 0


def test_who_may_what(stage: Stage, peer: Peer) -> None:
    made = added(stage, peer)
    place, olga = f"mcp/servers/{made['id']}", stage.person("olga", "operator")
    given = {"name": "second", "transport": "http", "base_url": peer.url}
    for caller in (olga, stage.agent, stage.person("tom", "approver"), stage.person("guest")):
        assert caller.post("mcp/servers", given).is_refused(403, "Unauthorized", "not_allowed")
    assert olga.patch(place, {"timeout": 5}).is_refused(403, "Unauthorized", "not_allowed")
    tom = stage.person("tom", "approver")
    for verb in ("test", "refresh", "enable", "disable"):
        assert tom.post(f"{place}/{verb}", {"reason": "x"}).is_refused(403, "Unauthorized", "not_allowed")
    for stranger in (stage.agent, stage.person("guest")):
        assert stranger.get("mcp/servers").body["servers"] == []
        assert stranger.get(place).is_refused(404, "NotFound", "not_found")
    robot = stage.automation("security-admin")
    assert robot.post("mcp/servers", given).fields == ["owner_id"]
    by_robot = robot.post("mcp/servers", {**given, "owner_id": str(stage.olga.pk)})
    assert (by_robot.status, by_robot.body["owner"]["username"]) == (201, "olga")


def test_an_owner_sees_their_own(stage: Stage, peer: Peer) -> None:
    guest = cast.user("guest")
    made = added(stage, peer, owner_id=str(guest.pk))
    seen = stage.person("guest")
    assert [one["id"] for one in seen.get("mcp/servers").body["servers"]] == [made["id"]]
    assert seen.get(f"mcp/servers/{made['id']}").status == 200
    assert seen.get("mcp/health-reports").body["total"] == 1
    assert seen.patch(f"mcp/servers/{made['id']}", {"timeout": 5}).is_refused(403, "Unauthorized")


def test_the_list_is_filtered(stage: Stage, peer: Peer) -> None:
    made = added(stage, peer)
    for query, total in (
        ({"name": "peer"}, 1), ({"name": "nope"}, 0), ({"status": "Ready"}, 1), ({"status": "Offline"}, 0),
        ({"transport": "http"}, 1), ({"enabled": "true"}, 1), ({"enabled": "false"}, 0),
    ):  # fmt: skip
        assert stage.admin.get("mcp/servers", **query).body["total"] == total, query
    assert stage.admin.get("mcp/servers", status="fine").fields == ["status"]
    assert made["name"] == "peer"


def test_no_answer_holds_a_secret(stage: Stage, peer: Peer) -> None:
    """Not of the server, not of its checks, not when it throws what it was sent back at us."""
    made = added(stage, peer, headers={"X-Key": "${KEY}"}, secrets={"KEY": SECRET})
    place = f"mcp/servers/{made['id']}"
    answers = [made]
    answers += [stage.admin.post(f"{place}/{verb}", {"reason": "x"}).body for verb in ("disable", "enable")]
    answers += [stage.admin.post(f"{place}/{verb}").body for verb in ("test", "refresh")]
    answers += [stage.admin.patch(place, {"secrets": {"KEY": SECRET, "B": "other-" + SECRET}}).body]
    answers += [stage.admin.get(path).body for path in ("mcp/servers", place, "mcp/health-reports", "audit-events")]
    assert SECRET not in json.dumps(answers)
    bad = stage.admin.patch(place, {"secrets": {"KEY": f"{SECRET}\n"}, "headers": {"X": "${NO}"}})
    assert bad.is_refused(400, "InvalidParameters")
    assert SECRET not in json.dumps(bad.body)


def test_who_may_only_use_a_tool_does_not_see_how_its_server_is_reached(stage: Stage, peer: Peer) -> None:
    made = added(stage, peer, headers={"X-Key": "${KEY}"}, secrets={"KEY": SECRET}, owner_id=str(stage.olga.pk))
    user = cast.user("una")
    cast.user_grant(Tool.objects.get(name="echo").identity, user)
    una, place = calling(user), f"mcp/servers/{made['id']}"
    seen = una.get(place)
    assert seen.status == 200
    hidden = ("command", "args", "env", "base_url", "headers", "secrets", "status_reason", "last_error")
    assert {name: seen.body[name] for name in hidden} == dict.fromkeys(hidden)
    assert seen.body["name"] == "peer"
    [item] = una.get("mcp/servers").body["servers"]
    assert {name: item[name] for name in hidden} == dict.fromkeys(hidden)
    for text in ("X-Key", peer.url, "KEY"):
        assert text not in json.dumps([seen.body, item])
    assert una.get("mcp/health-reports").body["total"] == 0
    # Its owner sees it, without any console role.
    Server.objects.update(owner=cast.user("oli"))
    own = calling(cast.user("oli")).get(place).body
    assert (own["base_url"], own["headers"], own["secrets"]) == (peer.url, {"X-Key": "${KEY}"}, ["KEY"])
    assert calling(cast.user("oli")).get("mcp/health-reports").body["total"] > 0
