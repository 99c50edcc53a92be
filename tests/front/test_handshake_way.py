"""The whole way in a session: official clients of both lines, and calls that are given up or cancelled."""

import pytest

from mcp.models import Call, McpSession
from nhi.models import Identity, InvocationLog
from tests.front import handshake
from tests.front.handshake import Line
from tests.front.served import DEADLINE
from tests.front.test_way import TOOLS, call, token
from tests.front.test_way import bot as bot
from tests.front.test_way import peer as peer
from tests.front.test_way import url as url
from tests.services.peers import PeerServer, sdk_client
from tests.services.waiting import wait_for

pytestmark = [
    pytest.mark.capability("MCP-06"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.both_databases,
]
LINES = pytest.mark.parametrize("old", [False, True], ids=["current SDK", "SDK before"])


@LINES
@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
def test_an_official_client_lists_and_calls_what_it_was_granted(
    bot: Identity, url: str, version: str, old: bool
) -> None:
    output = sdk_client(
        url, token(bot), "--version", version, "--list", *call("peer__add", a=1, b=2),
        *call("peer__progress", steps=3), *call("peer__fail"), *call("peer__big", size=1), *call("peer__no"), old=old,
    )  # fmt: skip
    assert output["version"] == version
    assert output["server"]["name"] == "gatehouse"
    assert output["capabilities"] == {"tools": {"listChanged": False}}
    assert [tool["name"] for tool in output["tools"]] == [f"peer__{name}" for name in TOOLS if name != "big"]
    added, stepped, failed, *strange = output["calls"]
    assert added["result"]["structuredContent"] == {"result": 3}
    assert stepped["progress"] == [[1, 3, "step 1"], [2, 3, "step 2"], [3, 3, "step 3"]]
    assert failed["result"]["isError"] is True
    assert {one["error"]["code"] for one in strange} == {-32602}
    rows = {str(row.pk): row.status for row in InvocationLog.objects.filter(agent_id=bot.pk)}
    assert [rows[one["result"]["_meta"]["gatehouse/call_id"]] for one in (added, stepped, failed)] == [
        "success", "success", "error"
    ]  # fmt: skip


@LINES
def test_an_official_client_ends_its_session_when_it_leaves(bot: Identity, url: str, old: bool) -> None:
    sdk_client(url, token(bot), "--version", "2025-11-25", "--list", old=old)
    row = McpSession.objects.get()
    assert row.identity_id == bot.pk
    assert row.ended_at is not None


def test_what_the_official_client_gives_up_is_cancelled_at_the_server(
    bot: Identity, peer: PeerServer, url: str
) -> None:
    options = ("--version", "2025-11-25", "--cancel-after", "1")
    output = sdk_client(url, token(bot), *options, *call("peer__sleep", seconds=60))
    assert output["calls"][0]["cancelled"] is True
    peer.wait_for_note("cancelled")
    wait_for(lambda: rows(bot) == [("error", "cancelled")], DEADLINE, "recorded as cancelled")


def rows(bot: Identity) -> list[tuple[str, str]]:
    return list(InvocationLog.objects.filter(agent_id=bot.pk).values_list("status", "reason"))


@pytest.mark.parametrize("progress", [False, True])
def test_a_call_whose_client_goes_away_runs_on_and_is_recorded(
    bot: Identity, peer: PeerServer, url: str, progress: bool
) -> None:
    line = Line(token(bot))
    line.begin(url)
    meta = {"_meta": {"progressToken": 1}} if progress else {}
    sleep = handshake.request("tools/call", name="peer__sleep", arguments={"seconds": 2}, **meta)
    with line.connected(url, sleep):
        peer.wait_for_note("begun")
    peer.wait_for_note("ended")
    wait_for(lambda: rows(bot) == [("success", "")], DEADLINE, "recorded as a success")
    assert not Call.objects.exists()


def test_a_call_that_runs_on_can_still_be_cancelled(bot: Identity, peer: PeerServer, url: str) -> None:
    line = Line(token(bot))
    line.begin(url)
    with line.connected(url, handshake.request("tools/call", name="peer__sleep", arguments={"seconds": 60})):
        peer.wait_for_note("begun")
    with line.posted(url, handshake.notification("notifications/cancelled", requestId=1)) as answer:
        assert answer.status == 202
    peer.wait_for_note("cancelled")
    wait_for(lambda: rows(bot) == [("error", "cancelled")], DEADLINE, "recorded as cancelled")
    assert not Call.objects.exists()
