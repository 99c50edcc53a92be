"""A house of the version before, with tools that wait: who made a change then does not approve it after the upgrade."""

import pytest
from django.db import connection

from mcp.models import PendingChange, ToolDefinition
from mcp.servers import lifecycle
from mcp.tools import reviewers
from nhi.identities import identities
from tests.mcp import peer
from tests.mcp.peer import Peer
from tests.mcp.pinning import mara, refresh, refused_as, tom
from tests.mcp.scene import Scene, do
from tests.nhi import cast
from tests.services.upgrades import back_at

pytestmark = [
    pytest.mark.capability("MCP-05", "OPS-02"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]


def test_parts_are_read_from_the_versions_that_were_kept(made: Scene, server: Peer) -> None:
    server.tools.append(peer.tool("calm"))
    refresh(made)
    vera = cast.admin("vera")
    lifecycle.change(actor=vera, server=made.server, headers={"X-Team": "blue"})
    lifecycle.change(actor=tom(), server=made.server, base_url=f"{server.url}?x=1")
    uma = cast.admin("uma")
    identities.change(actor=uma, identity=made.tool().identity, capability="shared.read")
    tool, calm = made.tool(), made.tool("calm")
    moved = ToolDefinition.objects.filter(changed_by_id__in=[vera.id, tom().id])
    ids = [str(row) if connection.vendor == "postgresql" else row.hex for row in moved.values_list("pk", flat=True)]
    with back_at("mcp", "0002_approval_origins"):
        quoted = ", ".join(f"'{one}'" for one in ids)
        true = "TRUE" if connection.vendor == "postgresql" else "1"
        person = str(uma.id) if connection.vendor == "postgresql" else uma.id.hex  # type: ignore[union-attr]  # a person
        key = str(tool.pk) if connection.vendor == "postgresql" else tool.pk.hex
        do((
            f"UPDATE mcp_tool_definition SET server_moved = {true} WHERE id IN ({quoted})",
            f"UPDATE mcp_tool SET capability_by_id = '{person}' WHERE identity_id = '{key}'",
        ))  # fmt: skip
    places = {(row.place, row.changed_by_name) for row in PendingChange.objects.filter(tool=tool)}
    assert places == {("headers.X-Team", "vera"), ("base_url", "tom"), ("capability", "uma")}
    bars = reviewers.find_barred(made.tool())
    assert {bar.name for bar in bars.values()} == {"vera", "tom", "uma"}
    assert mara().id not in bars
    assert {row.place for row in PendingChange.objects.filter(tool=calm)} == {"headers.X-Team", "base_url"}
    assert refused_as(made) == "definition_changed", "an upgrade approves nothing"
    definition = made.tool().current
    assert definition is not None
    assert definition.flagged_by == ""


def test_what_is_approved_stays_approved(made: Scene, server: Peer) -> None:
    with back_at("mcp", "0002_approval_origins"):
        pass
    assert made.call().status == "success"
    assert not PendingChange.objects.exists()
