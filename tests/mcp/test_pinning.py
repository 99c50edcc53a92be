"""Tools are called by the definition that a person approved: what servers and people change is seen and waits."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection

from mcp.models import Server, ServerSecret, Tool, ToolDefinition
from mcp.servers import health, lifecycle
from mcp.tools import catalogue, definitions
from mcp.tools.catalogue import ServerChangedMeanwhile
from mcp.tools.definitions import OwnChange
from nhi.actors import SYSTEM
from nhi.models import AuditEvent, User
from tests.mcp import peer
from tests.mcp.peer import Json, Peer
from tests.mcp.pinning import approve, listed, mara, refresh, refused_as, tom
from tests.mcp.scene import Scene, scene

pytestmark = [
    pytest.mark.capability("MCP-05", "MCP-04", "MCP-01"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]
CHANGES: dict[str, Json] = {
    "one letter of the description": {"description": "The tool  echo"},
    "the title": {"title": "Echo"},
    "the input schema": {"inputSchema": {"type": "object", "properties": {"to": {"type": "string"}}}},
    "an output schema": {"outputSchema": {"type": "object"}},
    "an annotation": {"annotations": {"readOnlyHint": True}},
    "what goes along": {"_meta": {"x": 1}},
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_changes_is_quarantined_until_another_person_approves_it(
    made: Scene, server: Peer, change: str
) -> None:
    assert made.call().status == "success"
    original = dict(server.tools[0])
    server.tools[0].update(CHANGES[change])
    assert refresh(made).changed == ["echo"]
    sent = len(server.calls)
    assert refused_as(made) == "definition_changed"
    assert len(server.calls) == sent
    assert listed(made) == []
    if change != "one letter of the description":
        return
    with pytest.raises(OwnChange):
        approve(made, mara())
    server.tools[0] = original
    refresh(made)
    assert refused_as(made) == "definition_changed", "what is put back is looked at, too"
    approve(made, mara())  # it is what she approved before
    assert made.call().status == "success"
    server.tools[0] = {**original, "description": "Other words"}
    refresh(made)
    tool = approve(made, tom())
    assert tool.approved is not None
    assert tool.approved.approved_by_name == "tom"
    assert made.call().status == "success"


@pytest.mark.skipif("connection.vendor == 'sqlite'", reason="Whoever writes there writes alone")
def test_what_is_approved_while_it_changes_does_not_stay_approved(made: Scene, server: Peer, monkeypatch: Any) -> None:
    server.tools[0]["description"] = "Other words"
    refresh(made)
    see = definitions.record_definition

    def meanwhile(*args: Any, **given: Any) -> bool:
        """The tools were read, and nothing of them is written yet."""
        with ThreadPoolExecutor(1) as aside:
            aside.submit(approve_apart, made).result(10)
        return see(*args, **given)

    monkeypatch.setattr(definitions, "record_definition", meanwhile)
    server.tools[0]["description"] = "Yet other words"
    refresh(made)
    assert refused_as(made) == "definition_changed"


def approve_apart(made: Scene) -> None:
    try:
        approve(made, tom())
    finally:
        connection.close()


def test_tools_that_come_go_and_return(made: Scene, server: Peer) -> None:
    server.tools.append(peer.tool("new"))
    assert refresh(made).added == ["new"]
    assert made.tool("new").state == "pending"
    assert listed(made) == ["peer__echo"]
    [gone] = [one for one in server.tools if one["name"] == "echo"]
    server.tools.remove(gone)
    assert refresh(made).withdrawn == ["echo"]
    assert refused_as(made) == "definition_withdrawn"
    assert listed(made) == []
    server.tools.append(gone)
    assert refresh(made).changed == ["echo"]
    assert refused_as(made) == "definition_changed", "back is not approved"
    assert AuditEvent.objects.filter(event__in=["tool.withdrawn", "tool.returned"]).count() == 2


def test_what_was_asked_before_a_change_is_not_taken_for_what_it_says_after(made: Scene, server: Peer) -> None:
    before = made.server
    lifecycle.change(actor=tom(), server=made.server, headers={"X-Team": "blue"})
    with pytest.raises(ServerChangedMeanwhile):
        catalogue.record_listing(actor=SYSTEM, server=before, listed_tools=[peer.tool("planted")])
    assert not Tool.objects.filter(name="planted").exists()


def test_a_call_goes_by_the_approved_schema_and_no_other(made: Scene, server: Peer) -> None:
    """Also while a changed one waits, and for what the changed one would allow."""
    server.tools[0]["inputSchema"] = {"type": "object", "required": ["a"]}
    refresh(made)
    approve(made, tom())
    assert made.call("echo", {"b": 1}).reason == "invalid_parameters"
    assert made.call("echo", {"a": 1}).status == "success"
    server.tools[0]["inputSchema"] = {"type": "object"}
    assert made.call("echo", {"b": 1}).reason == "invalid_parameters", "nobody was told of the change yet"
    refresh(made)
    assert made.call("echo", {"a": 1}).reason == "definition_changed"


def test_every_version_is_kept(made: Scene, server: Peer) -> None:
    for number in range(3):
        server.tools[0]["description"] = f"Version {number}"
        refresh(made)
    refresh(made)
    assert list(ToolDefinition.objects.order_by("number").values_list("number", flat=True)) == [1, 2, 3, 4]
    with pytest.raises(Exception, match=r"kept|never|not"):
        ToolDefinition.objects.first().delete()  # type: ignore[union-attr]  # there is one


def test_a_tool_that_cannot_be_registered_hides_no_change_of_another(made: Scene, server: Peer) -> None:
    """Its owner left, and nobody may be given what would be new."""
    User.objects.filter(username="owner").update(is_active=False)
    server.tools.append(peer.tool("new"))
    server.tools[0]["description"] = "Something else"
    report = refresh(made)
    assert report.changed == ["echo"]
    assert [one["name"] for one in report.refused] == ["new"]
    assert refused_as(made) == "definition_changed"


def test_one_server_that_cannot_be_met_hides_no_change_of_another(made: Scene, server: Peer, settings: Any) -> None:
    settings.MCP_REFRESH_SECONDS = 0
    spoilt = scene(server.url, server="spoilt", agents=["other"])
    lifecycle.change(
        actor=tom(), server=spoilt.server, headers={"X-Key": "${KEY}"}, secret_values={"KEY": "a-canary-of-this-test"}
    )
    ServerSecret.objects.update(sealed="not what was sealed")
    Server.objects.filter(name="spoilt").update(last_refreshed_at=None)
    server.tools[0]["description"] = "Something else"
    health.refresh_due_servers()
    assert refused_as(made) == "definition_changed"
