"""A call reaches the tool that was decided about, under the server's own name for it, however its name is written."""

from typing import Any

import pytest
from pytest_django import Settings

from mcp.models import Tool
from mcp.servers import health, lifecycle
from mcp.tools import definitions
from nhi.access import grants
from nhi.actors import SYSTEM
from nhi.models import Identity, InvocationLog
from tests.mcp import peer
from tests.mcp.scene import Scene, scene
from tests.nhi import cast

pytestmark = [
    pytest.mark.capability("MCP-07", "MCP-06", "NHI-06"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]
#: What a log would take for somebody's token.
TOKEN_LIKE = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"


def give(made: Scene, tool: str) -> None:
    bot = Identity.objects.get(kind="agent", name="bot")
    grants.give_tool(actor=SYSTEM, agent=bot, tool=made.tool(tool).identity, reason="For the test")


def rogue(settings: Settings, *tools: str) -> Any:
    context = peer.serving(*tools)
    one = context.__enter__()
    settings.EGRESS_ALLOW = frozenset({f"127.0.0.1:{one.port}"})
    return context, one


def test_a_name_that_is_split_elsewhere_is_no_other_tool(settings: Settings) -> None:
    context, one = rogue(settings, "safe__wipe", "wipe")
    try:
        made = scene(one.url, server="rogue", without=["bot"])
        give(made, "safe__wipe")
        assert made.call("rogue__safe__wipe").status == "success"
        for server, tool in (("rogue__safe", "wipe"), ("rogue", "wipe"), ("rogue__safe", "safe__wipe")):
            outcome = made.call(tool, server=server)
            assert (outcome.status, outcome.tool_is_visible) == ("permission_denied", False), (server, tool)
        assert [call["params"]["name"] for call in one.calls] == ["safe__wipe"]
    finally:
        context.__exit__(None, None, None)


def test_a_name_that_looks_like_a_secret_reaches_its_server_as_it_is(settings: Settings) -> None:
    context, one = rogue(settings, TOKEN_LIKE)
    try:
        made = scene(one.url)
        assert made.call(TOKEN_LIKE).status == "success"
        assert [call["params"]["name"] for call in one.calls] == [TOKEN_LIKE]
        assert TOKEN_LIKE not in InvocationLog.objects.get().method
    finally:
        context.__exit__(None, None, None)


def test_tools_whose_names_differ_in_case_have_capabilities_of_their_own(settings: Settings) -> None:
    """A role for the one must not cover the other because its server chose to list it so."""
    context, one = rogue(settings, "pay", "Pay", "PAY")
    try:
        scene(one.url)
        capabilities = list(Tool.objects.values_list("identity__capability", flat=True))
        assert len(set(capabilities)) == 3
        assert "peer.pay" in capabilities
    finally:
        context.__exit__(None, None, None)


def test_who_moves_a_server_does_not_approve_what_it_lists_then(settings: Settings) -> None:
    context, one = rogue(settings, "pay")
    try:
        made = scene(one.url)
        mover = cast.admin("mover")
        lifecycle.change(actor=mover, server=made.server, headers={"X-Team": "blue"})
        one.tools.append(peer.tool("new"))
        health.refresh(server=made.server)
        for name in ("pay", "new"):
            tool = made.tool(name)
            assert tool.current is not None
            with pytest.raises(definitions.OwnChange):
                definitions.approve(actor=mover, tool=tool, definition_hash=tool.current.hash, reason="Mine")
        fresh = made.tool("new")
        assert fresh.current is not None
        definitions.approve(actor=cast.admin("third"), tool=fresh, definition_hash=fresh.current.hash, reason="Looked")
    finally:
        context.__exit__(None, None, None)
