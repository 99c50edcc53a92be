"""A permit is for one call, whoever sends it first, at whichever process."""

from collections import Counter

import pytest

from tests.mcp.load import callers
from tests.mcp.load.callers import by_answer
from tests.mcp.load.conftest import Place

pytestmark = [
    pytest.mark.capability("NHI-14", "NHI-06", "MCP-07"),
    pytest.mark.both_databases,
    pytest.mark.xdist_group("house"),
]
REASON = {"reason": "Looked at it"}


def test_a_call_waits_goes_nowhere_and_passes_once(place: Place) -> None:
    town = place.town(limits={"requires_approval": True}, budgets=[["agent", "bot", {"daily_quota": 1}]])
    first = town.call(text="deploy")
    assert (first.status, first.body["status"]) == (202, "pending_approval")
    assert first.body["expires_at"].endswith("Z")
    again = town.call(text="deploy", web=1)
    assert again.status == 202
    assert town.peer.calls == []
    token = town.made["tokens"]["bot"]
    for asked in (first, again):
        assert town.webs.ask("GET", f"mcp/calls/{asked.body['call_id']}", token=token)["status"] == "pending"
    pending = town.webs.ask("GET", "approvals?state=pending")["approvals"]
    waiting = [one for one in pending if one["tool_name"].startswith(town.made["name"])]
    assert len(waiting) == 1
    assert waiting[0]["arguments"] == {"text": "deploy"}
    town.webs.ask("POST", f"approvals/{waiting[0]['id']}/approve", REASON)
    name = f"{town.made['name']}__echo"
    asked_again = {"text": "deploy"}
    replies = callers.at_once(
        town.ports, 8, lambda port, link, _number: callers.call(port, token, name, asked_again, link=link), clients=8
    )
    assert by_answer(replies) == Counter({"200": 1, "202": 7})
    assert len(town.peer.calls) == 1
    assert town.call(text="something else").status == 202, "other arguments are another call"


def test_a_refused_call_stays_refused_until_it_is_asked_again(place: Place) -> None:
    town = place.town(limits={"requires_approval": True})
    first = town.call(text="drop it all")
    approval = town.webs.ask("GET", "approvals?state=pending&limit=100")["approvals"][0]
    town.webs.ask("POST", f"approvals/{approval['id']}/refuse", {"reason": "Certainly not"})
    status = town.webs.ask("GET", f"mcp/calls/{first.body['call_id']}", token=town.made["tokens"]["bot"])
    assert status["status"] == "refused"
    assert town.peer.calls == []
    assert town.call(text="drop it all").status == 202
