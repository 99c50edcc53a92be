"""The register of tools over the API: by those who govern it, and by those who call."""

from typing import Any
from urllib.parse import urlencode

import pytest

from mcp.models import Server
from mcp.servers import lifecycle as servers
from nhi.actors import SYSTEM
from nhi.identities import lifecycle
from tests.api.callers import ABSENT, Caller, Reply
from tests.api.conftest import Stage
from tests.api.mcp import rows
from tests.api.mcp.conftest import added, approved, tool_of
from tests.mcp.peer import Peer, tool
from tests.nhi import cast

pytestmark = pytest.mark.capability("MCP-04", "MCP-07")
SHOWN = {
    "id", "name", "type", "server", "tool", "capability", "title", "description", "input_schema", "output_schema",
    "annotations", "tags", "metadata", "status", "deprecated", "requires_approval", "definition",
}  # fmt: skip


def names(caller: Caller, **query: Any) -> list[str]:
    answer = caller.get("mcp/tools", **query)
    assert answer.status == 200, answer.body
    return [one["name"] for one in answer.body["tools"]]


def test_people_see_the_register(stage: Stage, peer: Peer) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    said = {"title": "Echo", "outputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
    peer.tools[0] = {**tool("echo", **schema), **said}
    added(stage, peer)
    assert names(stage.admin) == ["peer__echo", "peer__other"]
    echo = stage.admin.get("mcp/tools").body["tools"][0]
    assert set(echo) == SHOWN
    wanted = {
        "id": str(tool_of().pk),
        "type": "tool",
        "server": "peer",
        "tool": "echo",
        "capability": "peer.echo",
        "title": "Echo",
        "description": "The tool echo",
        "input_schema": schema,
        "output_schema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
        "tags": [],
        "metadata": {},
        "status": "pending",
        "deprecated": False,
    }
    assert {name: echo[name] for name in wanted} == wanted
    assert (echo["definition"]["state"], len(echo["definition"]["hash"])) == ("pending", 64)
    read = stage.admin.get(f"mcp/tools/{echo['id']}").body
    counted = read.pop("metrics")
    assert (read, counted["invocation_count"], counted["p95_ms"]) == (echo, 0, None)
    assert names(stage.admin, server="peer") == ["peer__echo", "peer__other"]
    assert names(stage.admin, server="nope") == []
    assert names(stage.admin, definition="pending", limit=1) == ["peer__echo"]
    assert names(stage.admin, definition="approved") == []
    assert stage.admin.get("mcp/tools", definition="odd").fields == ["definition"]


def test_a_server_with_odd_words_does_no_harm(stage: Stage, peer: Peer) -> None:
    peer.tools[0] = {"name": "echo", "description": "", "inputSchema": {"type": "object"}, "annotations": {}}
    added(stage, peer)
    echo = stage.admin.get("mcp/tools").body["tools"][0]
    assert (echo["description"], echo["annotations"], echo["title"]) == ("", {}, None)


def test_an_identity_sees_what_it_may_call_now(stage: Stage, peer: Peer) -> None:
    server = Server.objects.get(pk=added(stage, peer)["id"])
    echo = tool_of()
    cast.tool_grant(stage.bot, echo.identity)
    assert names(stage.agent) == []
    approved(stage)
    assert names(stage.agent) == ["peer__echo"]
    assert stage.agent.get("mcp/tools").body["tools"][0]["status"] == "active"
    assert names(stage.agent, server="peer") == ["peer__echo"]
    assert names(stage.agent, server="other") == names(stage.agent, definition="pending") == []
    assert names(stage.stranger) == []
    assert stage.stranger.get(f"mcp/tools/{echo.pk}").is_refused(404, "NotFound")
    servers.disable(actor=SYSTEM, server=server, reason="x")
    assert names(stage.agent) == []
    assert names(stage.admin) == ["peer__echo", "peer__other"]


def test_roles_and_tokens_narrow_what_is_listed(stage: Stage, peer: Peer) -> None:
    added(stage, peer)
    approved(stage)
    approved(stage, "other")
    role = stage.admin.post("roles", {"name": "reader", "capabilities": ["peer.*"]}).body["id"]
    stage.admin.post("role-assignments", {"role_id": role, "identity_id": str(stage.bot.pk)})
    assert names(stage.agent) == ["peer__echo", "peer__other"]
    form = {
        "grant_type": "client_credentials",
        "client_id": stage.agent.token.split("_")[2],
        "client_secret": stage.agent.token,
        "scope": "peer.other",
    }
    kind = "application/x-www-form-urlencoded"
    short = Caller().client.post("/oauth/token", urlencode(form), content_type=kind).json()
    assert names(Caller(short["access_token"])) == ["peer__other"]


def test_the_status_says_what_a_caller_would_meet(stage: Stage) -> None:
    kept = rows.keep(stage.mara, stage.bot)
    place = f"mcp/tools/{kept.tool.pk}"

    def status() -> str:
        return str(stage.admin.get(place).body["status"])

    assert status() == "active"
    Server.objects.update(status="Offline")
    assert status() == "offline"
    Server.objects.update(enabled=False)
    assert status() == "disabled"
    Server.objects.update(enabled=True, status="Ready")
    lifecycle.suspend(actor=SYSTEM, identity=kept.tool.identity, reason="x")
    assert status() == "disabled"


@pytest.mark.capability("MCP-05")
def test_a_definition_is_approved_by_its_hash(stage: Stage, peer: Peer) -> None:
    server = added(stage, peer)["id"]
    echo = tool_of()
    assert echo.current
    place, given = f"mcp/tools/{echo.pk}/approve", {"definition_hash": echo.current.hash, "reason": "Read it"}
    assert stage.admin.post(place, {**given, "definition_hash": "0" * 64}).is_refused(409, "Conflict", "stale_hash")
    assert stage.admin.post(place, {**given, "reason": ""}).fields == ["reason"]
    assert stage.admin.post(place, {}).fields == ["definition_hash", "reason"]
    assert stage.person("olga", "operator").post(place, given).is_refused(403, "Unauthorized", "not_allowed")
    assert stage.person("ada", "auditor").post(place, given).is_refused(403, "Unauthorized", "only_reads")
    assert stage.admin.post(f"mcp/tools/{ABSENT}/approve", {}).is_refused(404, "NotFound")
    answer = stage.admin.post(place, given)
    assert (answer.status, answer.body["status"], answer.body["definition"]["state"]) == (200, "active", "approved")
    assert answer.body["definition"]["approved_by"] == "mara"
    assert stage.admin.post(place, given).is_refused(409, "Conflict")

    peer.tools[0] = tool("echo", type="object", required=["x"])
    stage.admin.post(f"mcp/servers/{server}/refresh")
    changed = stage.admin.get(f"mcp/tools/{echo.pk}").body
    assert (changed["status"], changed["definition"]["approved_hash"]) == ("quarantined", echo.current.hash)
    assert changed["input_schema"]["required"] == ["x"]
    renewed = {**given, "definition_hash": changed["definition"]["hash"]}
    assert stage.admin.post(place, given).is_refused(409, "Conflict", "stale_hash")
    assert stage.admin.post(place, renewed).is_refused(403, "Unauthorized", "own_change")
    assert stage.person("tom", "approver").post(place, renewed).status == 200


def test_one_that_is_gone_is_kept(stage: Stage, peer: Peer) -> None:
    server = added(stage, peer)["id"]
    approved(stage)
    peer.tools.pop(0)
    stage.admin.post(f"mcp/servers/{server}/refresh")
    assert names(stage.admin, definition="withdrawn") == ["peer__echo"]
    assert stage.admin.get("mcp/tools", definition="withdrawn").body["tools"][0]["status"] == "withdrawn"
    assert stage.admin.get(f"mcp/servers/{server}").body["discovered_tools"] == ["other"]


def test_what_people_say_of_a_tool_is_changed(stage: Stage) -> None:
    kept = rows.keep(stage.mara, stage.bot)
    place = f"mcp/tools/{kept.tool.pk}"
    assert stage.admin.patch(place, {"requires_approval": True}).body["requires_approval"] is True
    changed = stage.admin.patch(place, {"deprecated": True, "owner_id": str(stage.olga.pk)})
    assert (changed.status, changed.body["deprecated"], changed.body["requires_approval"]) == (200, True, True)
    assert stage.admin.get(f"identities/{kept.tool.pk}").body["owner"]["username"] == "olga"
    assert stage.admin.patch(place, {"owner_id": ABSENT}).fields == ["owner_id"]
    assert stage.admin.patch(place, {"description": "Mine"}).fields == ["description"]
    assert stage.person("tom", "approver").patch(place, {}).is_refused(403, "Unauthorized", "not_allowed")
    assert stage.stranger.patch(place, {}).is_refused(404, "NotFound")


def test_the_bare_paths_are_the_same(stage: Stage) -> None:
    kept = rows.keep(stage.mara, stage.bot)
    cast.tool_grant(stage.bot, kept.tool.identity)
    for caller in (stage.agent, stage.admin):
        assert caller.get("/mcp/tools").body == caller.get("mcp/tools").body
    assert stage.agent.get("/mcp/tools").body["total"] == 1
    one = stage.agent.get(f"/mcp/calls/{kept.call.pk}")
    assert (one.status, one.body) == (200, stage.agent.get(f"mcp/calls/{kept.call.pk}").body)
    assert Caller().get("/mcp/tools").is_refused(401, "Unauthorized", "no_credential")
    for path in ("/mcp/tools/", "/mcp/tools/x", "/mcp/calls/x", f"/mcp/tools/{kept.tool.pk}"):
        assert stage.agent.get(path).is_refused(404, "NotFound"), path


@pytest.mark.capability("MCP-05")
def test_two_admins_approve_what_a_server_changes_again_and_again(stage: Stage, peer: Peer) -> None:
    server = added(stage, peer)["id"]
    approved(stage)
    place, tom = f"mcp/tools/{tool_of().pk}", stage.person("tom", "security-admin")
    for number in range(3):
        peer.tools[0] = {**tool("echo"), "description": f"Version {number}"}
        assert tom.post(f"mcp/servers/{server}/refresh").body["changed"] == ["echo"]
        digest = tom.get(place).body["definition"]["hash"]
        given = {"definition_hash": digest, "reason": "Read the difference"}
        assert stage.admin.post(f"{place}/approve", given).is_refused(403, "Unauthorized", "own_change")
        assert tom.post(f"{place}/approve", given).status == 200


@pytest.mark.capability("MCP-05")
def test_two_admins_who_are_both_barred_are_told_what_helps_and_it_does(stage: Stage, peer: Peer) -> None:
    server = added(stage, peer)["id"]
    approved(stage)
    place, tom = f"mcp/tools/{tool_of().pk}", stage.person("tom", "security-admin")
    before = tom.get(place).body["capability"]
    assert stage.admin.patch(f"mcp/servers/{server}", {"headers": {"X-Team": "blue"}}).status == 200
    assert tom.patch(f"identities/{tool_of().pk}", {"capability": "shared.read"}).status == 200

    def approve(caller: Caller) -> Reply:
        digest = caller.get(place).body["definition"]["hash"]
        return caller.post(f"{place}/approve", {"definition_hash": digest, "reason": "Read the difference"})

    for caller in (stage.admin, tom):
        refused = approve(caller)
        assert refused.is_refused(403, "Unauthorized", "own_change")
        assert "mara and tom are both barred: mara set the header X-Team on" in refused.body["message"]
        assert "tom changed the capability on" in refused.body["message"]
    assert "If tom sets the header X-Team again" in refused.body["message"]
    assert tom.patch(f"mcp/servers/{server}", {"headers": {}}).status == 200
    assert approve(stage.admin).status == 200, "the header is as it was approved; only the capability is left"
    assert stage.admin.patch(f"identities/{tool_of().pk}", {"capability": before}).status == 200
    assert approve(stage.admin).is_refused(403, "Unauthorized", "own_change")
