"""One breaker for all processes: it opens after so many faults in a row, and one call tries whether it may close."""

import threading
import time
from collections import Counter

import pytest
from aiohttp import web

from tests.mcp.load.callers import by_answer
from tests.mcp.load.conftest import Place, Town
from tests.mcp.peer import Json

pytestmark = [
    pytest.mark.capability("MCP-09", "MCP-03", "AUD-02"),
    pytest.mark.both_databases,
    pytest.mark.xdist_group("house"),
]


def break_it(town: Town) -> None:
    town.peer.mode = "error"
    for number in range(5):
        reply = town.call(web=number % 4)
        assert (reply.status, reply.reason) == (502, "upstream")


def test_it_opens_for_all_processes_and_closes_after_one_probe(place: Place) -> None:
    town = place.town(breaker={"recovery_timeout": 2})
    break_it(town)
    assert by_answer(town.many(16)) == Counter({"503 breaker_open": 16})
    assert len(town.peer.calls) == 5, "nothing was sent while it was open"
    town.peer.forget()
    town.peer.hold()
    time.sleep(2.1)  # the recovery timeout itself is what is waited for
    replies = []
    thread = threading.Thread(target=lambda: replies.extend(town.many(32, clients=32)))
    thread.start()
    deadline = time.monotonic() + 30
    while len(replies_so_far(town)) < 31:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert len(town.peer.calls) == 1, "one probe, over four processes and thirty-two callers"
    town.peer.let_go()
    thread.join(30)
    assert by_answer(replies) == Counter({"503 breaker_open": 31, "200": 1})
    town.peer.mode = "echo"
    assert by_answer(town.many(8)) == Counter({"200": 8})


def replies_so_far(town: Town) -> list[object]:
    return [row for row in town.rows(tool_name=town.made["name"]) if row["reason"] == "breaker_open"][16:]


def test_a_probe_that_fails_opens_it_again(place: Place) -> None:
    town = place.town(breaker={"recovery_timeout": 1})
    break_it(town)
    time.sleep(1.1)
    assert town.call().reason == "upstream"
    assert town.call(web=1).reason == "breaker_open"
    known = town.webs.ask("GET", "mcp/breakers?limit=100")["breakers"]
    [breaker] = [one for one in known if one["service_name"] == town.made["name"]]
    assert breaker["state"] == "OPEN"
    assert breaker["recovery_timeout"] == "PT1S"


def test_what_callers_get_wrong_never_opens_it(place: Place) -> None:
    town = place.town()
    town.peer.mode = "fail"
    assert by_answer(town.many(24)) == Counter({"502 tool_error": 24})
    town.peer.mode = "echo"
    assert town.call().status == 200


async def raises(_request: web.Request, message: Json) -> web.StreamResponse:
    error = {"code": 0, "message": "division by zero"}
    return web.json_response({"jsonrpc": "2.0", "id": message["id"], "error": error})


def test_one_identity_closes_a_server_to_itself_only_and_one_of_its_calls_tries_again(place: Place) -> None:
    town = place.town(agents=["bot", "other"], breaker={"recovery_timeout": 2})
    town.peer.answers = raises
    assert by_answer([town.call(web=number) for number in range(4)] + [town.call()]) == Counter({"502 upstream": 5})
    town.peer.answers = None
    shut = town.many(16)
    assert by_answer(shut) == Counter({"503 breaker_open": 16})
    assert {reply.body["details"]["breaker"]["scope"] for reply in shut} == {"identity"}
    assert {int(reply.headers["retry-after"]) for reply in shut} <= {1, 2}
    assert by_answer(town.many(16, agent="other")) == Counter({"200": 16})
    time.sleep(2.1)  # the recovery timeout itself is what is waited for
    town.peer.forget()
    town.peer.hold()
    replies = []
    thread = threading.Thread(target=lambda: replies.extend(town.many(32, clients=32)))
    thread.start()
    deadline = time.monotonic() + 30
    while len(replies_so_far(town)) < 31:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert len(town.peer.calls) == 1, "one probe, over four processes and thirty-two callers"
    town.peer.let_go()
    thread.join(30)
    assert by_answer(replies) == Counter({"503 breaker_open": 31, "200": 1})
    town.peer.mode = "echo"
    assert by_answer(town.many(8)) == Counter({"200": 8})


def test_a_breaker_of_one_identity_is_listed_and_reset(place: Place) -> None:
    town = place.town(agents=["bot", "other"])
    town.peer.answers = raises
    for number in range(5):
        town.call(web=number % 4)
    town.peer.answers = None
    known = town.webs.ask("GET", "mcp/breakers?limit=100&scope=identity")["breakers"]
    [breaker] = [one for one in known if one["service_name"] == town.made["name"]]
    assert (breaker["state"], breaker["identity_id"]) == ("OPEN", town.made["agents"]["bot"])
    path = f"mcp/breakers/{town.made['name']}/reset"
    body = {"reason": "The tool is mended", "identity_id": breaker["identity_id"]}
    assert town.webs.ask("POST", path, body)["state"] == "CLOSED"
    assert town.call().status == 200
