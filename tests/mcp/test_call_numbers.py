"""Calls as Prometheus sees them: each counted once by what became of it, under labels that nobody outside chooses."""

import pytest

from mcp.gateway import call_telemetry
from mcp.gateway.batch.active_calls import STOP_REASON
from nhi.credentials import tokens
from nhi.decisions.reasons import RESULT_REASONS
from tests.mcp.peer import Peer
from tests.mcp.scene import Scene, scene

pytestmark = [pytest.mark.capability("OPS-03"), pytest.mark.django_db(transaction=True)]


def counted(status: str, reason: str = "") -> float:
    return float(call_telemetry.CALL_COUNTER.labels(status, reason)._value.get())


def timed(status: str) -> float:
    [family] = call_telemetry.CALL_SECONDS.labels(status).collect()
    return next(sample.value for sample in family.samples if sample.name.endswith("_count"))


def fail(town: Scene, server: Peer) -> None:
    server.mode = "fail"
    town.call()


CASES = {
    ("success", ""): lambda town, _: town.call(),
    ("error", "tool_error"): fail,
    ("permission_denied", "no_grant"): lambda town, _: town.call(agent="stranger"),
    ("unauthenticated", "credential_unknown"): lambda town, _: town.call(
        agent=tokens.make_credential_token("agt").token
    ),
    ("unauthenticated", "malformed"): lambda town, _: town.call(agent=tokens.make_credential_token("usr").token),
}


@pytest.mark.parametrize(("status", "reason"), CASES)
def test_a_call_is_counted_once_and_timed(server: Peer, status: str, reason: str) -> None:
    town = scene(server.url, agents=["bot", "stranger"], without=["stranger"])
    before = counted(status, reason), timed(status)
    CASES[status, reason](town, server)
    assert (counted(status, reason), timed(status)) == (before[0] + 1, before[1] + 1)


def test_what_is_not_on_the_lists_is_one_label() -> None:
    before = counted("other", "other")
    call_telemetry.count_call("a status", "chosen by somebody", 0.1)
    call_telemetry.count_call("another", "chosen too", 0.1)
    assert counted("other", "other") == before + 2


def test_what_stops_a_call_is_a_reason_of_the_table() -> None:
    assert STOP_REASON in RESULT_REASONS
    assert {*RESULT_REASONS} <= call_telemetry.KNOWN_REASONS
