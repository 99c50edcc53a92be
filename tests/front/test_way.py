"""The whole way: the official client, this server, the gateway with its database, and a server that the SDK made."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from common.canonical_json import encode
from mcp.choices import Connection, DefinitionState, Transport
from mcp.gateway import pipeline
from mcp.gateway.batch import active_calls
from mcp.models import Server, Tool, ToolDefinition
from mcp.models.calls import Call
from nhi.access import grants
from nhi.actors import SYSTEM
from nhi.authorization import oauth
from nhi.credentials import credentials
from nhi.identities import lifecycle
from nhi.models import Identity
from nhi.models.audit import InvocationLog
from tests.front.served import DEADLINE, served
from tests.nhi import cast
from tests.services.peers import PeerServer, sdk_client, sdk_server
from tests.services.waiting import wait_for

pytestmark = [
    pytest.mark.capability("MCP-06"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.both_databases,
]
TOOLS = ("add", "big", "echo", "fail", "progress", "sleep")


@pytest.fixture
def peer(tmp_path: Path, settings: Any) -> Iterator[PeerServer]:
    with sdk_server("http", tmp_path / "peer") as running:
        settings.EGRESS_ALLOW = frozenset({urlsplit(running.url).netloc})
        yield running


@pytest.fixture
def url() -> Iterator[str]:
    with served(pipeline) as found:
        yield found


@pytest.fixture
def bot(peer: PeerServer) -> Identity:
    """An agent that holds every tool but `big`."""
    listed = {tool["name"]: tool for tool in sdk_client(peer.url, "--list")["tools"]}
    server = Server.objects.create(
        name="peer", owner=cast.user("olga", "operator"), transport=Transport.HTTP, base_url=peer.url,
        status=Connection.READY, era="modern", protocol_version="2026-07-28", timeout=20,
    )  # fmt: skip
    found = cast.agent()
    for name in TOOLS:
        tool = approved(server, listed[name])
        if name != "big":
            cast.tool_grant(found, tool.identity)
    return found


def approved(server: Server, listed: dict[str, Any]) -> Tool:
    tool = Tool.objects.create(server=server, name=listed["name"], identity=cast.tool(f"peer__{listed['name']}"))
    definition = ToolDefinition.objects.create(
        tool=tool, number=1, hash=str(len(encode(listed))), body=listed, checkable=True
    )
    Tool.objects.filter(pk=tool.pk).update(current=definition, approved=definition, state=DefinitionState.APPROVED)
    return tool


def token(of: Identity) -> str:
    return credentials.issue(actor=SYSTEM, holder=of).token


def call(name: str, **arguments: Any) -> list[str]:
    return ["--call", name, json.dumps(arguments)]


def test_an_agent_lists_and_calls_what_it_was_granted(bot: Identity, url: str) -> None:
    said = sdk_client(
        url, token(bot), "--list", *call("peer__add", a=1, b=2), *call("peer__progress", steps=3), *call("peer__fail"),
        *call("peer__big", size=1), *call("peer__no"), *call("add", a=1, b=2),
    )  # fmt: skip
    assert [tool["name"] for tool in said["tools"]] == [f"peer__{name}" for name in TOOLS if name != "big"]
    added, stepped, failed, *strange = said["calls"]
    assert added["result"]["structuredContent"] == {"result": 3}
    assert stepped["progress"] == [[1, 3, "step 1"], [2, 3, "step 2"], [3, 3, "step 3"]]
    assert failed["result"]["isError"] is True
    assert "gatehouse/denied" not in failed["result"]["_meta"]
    assert {one["error"]["code"] for one in strange} == {-32602}
    assert len({one["error"]["message"] for one in strange}) == 1
    rows = {str(row.pk): row for row in InvocationLog.objects.filter(agent_id=bot.pk)}
    for one in (added, stepped, failed):
        row = rows[one["result"]["_meta"]["gatehouse/call_id"]]
        assert f"{row.tool_name}__{row.method}" == one["name"]
        assert row.status == ("error" if one is failed else "success")


def test_one_server_under_its_own_names(bot: Identity, url: str) -> None:
    said = sdk_client(f"{url}/peer", token(bot), "--list", *call("echo", text="hi"), *call("peer__echo", text="hi"))
    assert [tool["name"] for tool in said["tools"]] == [name for name in TOOLS if name != "big"]
    echoed, qualified = said["calls"]
    assert echoed["result"]["content"][0]["text"] == "hi"
    assert qualified["error"]["code"] == -32602
    assert sdk_client(f"{url}/none", token(bot), "--list")["tools"] == []


def test_a_grant_that_was_held_is_refused_with_its_reason(bot: Identity, url: str) -> None:
    shown = token(bot)
    [grant] = grants_on(bot, "peer__echo")
    grants.revoke(actor=cast.admin(), grant=grant, reason="No longer needed")
    said = sdk_client(url, shown, *call("peer__echo", text="hi"))
    denied = said["calls"][0]["result"]
    assert denied["isError"] is True
    assert denied["_meta"]["gatehouse/denied"]["reason"] == "grant_revoked"
    row = InvocationLog.objects.get(pk=denied["_meta"]["gatehouse/denied"]["call_id"])
    assert row.reason == "grant_revoked"


def grants_on(bot: Identity, name: str) -> list[Any]:
    return list(bot.tool_permissions.filter(tool__name=name))


def test_a_short_token_for_this_endpoint_opens_it_and_one_for_rest_does_not(bot: Identity, url: str) -> None:
    secret = token(bot)
    client = secret.split("_")[2]
    mine, rest = [
        oauth.exchange(client_id=client, secret=secret, resource=resource).token
        for resource in (oauth.mcp_resource(), oauth.rest_resource())
    ]
    assert sdk_client(url, mine, *call("peer__add", a=1, b=2))["calls"][0]["result"]["structuredContent"] == {
        "result": 3
    }
    assert "error" in sdk_client(url, rest, "--list")


def test_a_call_that_is_given_up_is_cancelled_at_the_server_and_recorded(
    bot: Identity, peer: PeerServer, url: str
) -> None:
    said = sdk_client(url, token(bot), "--cancel-after", "1", *call("peer__sleep", seconds=60))
    assert said["calls"][0]["cancelled"] is True
    peer.wait_for_note("cancelled")
    wait_for(
        lambda: InvocationLog.objects.filter(agent_id=bot.pk, reason="cancelled").exists(),
        DEADLINE,
        "recorded as cancelled",
    )
    assert not Call.objects.exists()


def test_suspending_the_agent_ends_its_call_and_tells_it_why(bot: Identity, peer: PeerServer, url: str) -> None:
    with ThreadPoolExecutor(1) as aside:
        asking = aside.submit(sdk_client, url, token(bot), *call("peer__sleep", seconds=60))
        peer.wait_for_note("begun")
        lifecycle.suspend(actor=cast.admin(), identity=bot, reason="It ran wild")
        [ended] = asking.result(timeout=30)["calls"]
    peer.wait_for_note("cancelled")
    denied = ended["result"]["_meta"]["gatehouse/denied"]
    row = InvocationLog.objects.get(pk=denied["call_id"])
    assert (denied["reason"], row.status) == (row.reason, "error")
    assert denied["reason"] == active_calls.STOP_REASON
    assert not Call.objects.exists()


def test_nothing_of_the_callers_reaches_the_server(bot: Identity, peer: PeerServer, url: str) -> None:
    shown = token(bot)
    sdk_client(url, shown, "--header", "X-Mine", "canary-7", *call("peer__add", a=1, b=2))
    heard = json.dumps(peer.requests())
    assert "tools/call" in heard
    assert shown not in heard
    assert "canary-7" not in heard


def test_a_bad_token_is_turned_away(bot: Identity, url: str) -> None:
    issued = credentials.issue(actor=SYSTEM, holder=bot)
    credentials.revoke(actor=SYSTEM, credential=issued.credential, reason="Leaked")
    for shown in (issued.token, issued.token[:-1], "nhi_agt_x"):
        assert "error" in sdk_client(url, shown, "--list", *call("peer__add", a=1, b=2))
    assert not InvocationLog.objects.exists()
