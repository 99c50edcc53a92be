"""One breaker for all processes: it opens after so many faults in a row, and one call tries whether it may close."""

import time
from collections import Counter

import pytest

from tests.mcp.load.callers import by_answer
from tests.mcp.load.conftest import Place, Town

pytestmark = [
    pytest.mark.capability("MCP-09", "MCP-03", "AUD-02"),
    pytest.mark.both_databases,
    pytest.mark.xdist_group("house"),
]


def break_it(town: Town) -> None:
    town.peer.mode = "error"
    for web in range(5):
        reply = town.call(web=web % 4)
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
    import threading

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
