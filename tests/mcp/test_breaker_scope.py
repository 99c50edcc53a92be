"""Whose calls a breaker stops: those of all, where the connection fails or two sources meet faults; else of one."""

from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web
from django.db import transaction

from common.db import clock
from mcp.choices import BreakerState, FaultKind
from mcp.gateway import dry_run
from mcp.limits import breakers
from mcp.limits.breakers import CHECK_SOURCE, ServerFault
from mcp.models import Breaker, Server
from mcp.servers import health
from nhi.models import AuditEvent, InvocationLog
from tests.mcp.peer import Json, Peer
from tests.mcp.scene import Scene, row_of, scene
from tests.nhi import cast

pytestmark = [
    pytest.mark.capability("MCP-09"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]
C, A = FaultKind.CONNECTION, FaultKind.ANSWER
ONE, OTHER = "one", "other"


@pytest.mark.parametrize(
    ("faults", "opens"),
    [
        ([(ONE, C)] * 4, False),
        ([(ONE, C)] * 5, True),
        ([(ONE, C), (OTHER, C)] * 2 + [(CHECK_SOURCE, C)], True),
        ([(ONE, A)] * 5, False),
        ([(ONE, C)] * 4 + [(ONE, A)], False),
        ([(ONE, A)] + [(ONE, C)] * 4, False),
        ([(ONE, A)] * 4 + [(OTHER, A)], True),
        ([(ONE, A)] * 4 + [(CHECK_SOURCE, A)], True),
        ([(CHECK_SOURCE, C)] * 5, False),
        ([(CHECK_SOURCE, A)] * 5, False),
    ],
)
def test_the_last_faults_in_a_row_decide_for_all(faults: list[tuple[str, str]], opens: bool) -> None:
    assert breakers.should_open(faults, 5) is opens


async def raises(_request: web.Request, message: Json) -> web.StreamResponse:
    """What the Python SDK's low-level server answers when a tool raises."""
    error = {"code": 0, "message": "division by zero"}
    return web.json_response({"jsonrpc": "2.0", "id": message["id"], "error": error})


@pytest.fixture
def made(server: Peer) -> Scene:
    return scene(server.url, agents=["bot", "other", "third"], timeout=0.3)


def of_all() -> Breaker:
    return Breaker.objects.for_all().get()


def own() -> Breaker:
    return Breaker.objects.for_one().get()


def rest(breaker: Breaker) -> None:
    """Its recovery time is over."""
    Breaker.objects.filter(pk=breaker.pk).update(last_state_change=clock.database_now() - timedelta(minutes=1))


@pytest.mark.parametrize("how", ["raises", "hangs"])
def test_one_identity_closes_a_server_to_itself_only(made: Scene, server: Peer, how: str) -> None:
    """The exploit of the review: five calls whose arguments make the tool raise, or run too long."""
    server.answers = raises if how == "raises" else None
    if how == "hangs":
        server.hold()
    assert {made.call().reason for _ in range(5)} == {"upstream" if how == "raises" else "timeout"}
    refused = made.call()
    assert (refused.status, refused.reason, refused.refusal.breaker_scope) == ("error", "breaker_open", "identity")
    assert refused.retry_after is not None
    assert 1 <= refused.retry_after <= 30
    assert row_of(refused.call_id).details["breaker"] == {"state": "OPEN", "failures": 5, "scope": "identity"}
    server.answers = None
    server.let_go()
    server.mode = "echo"
    assert made.call(agent="other").status == "success"
    assert made.call().reason == "breaker_open"
    assert (of_all().state, own().state, own().agent_name) == ("CLOSED", "OPEN", "bot")
    event = AuditEvent.objects.get(event="breaker.opened")
    assert (event.subject_name, event.after["scope"]) == ("peer for bot", "identity")


@pytest.mark.parametrize("mode", ["5xx", "closed", "unreachable"])
def test_faults_of_the_connection_close_it_to_all(made: Scene, server: Peer, mode: str, settings: Any) -> None:
    async def hang_up(request: web.Request, _message: Json) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    if mode == "5xx":
        server.mode = "error"
    elif mode == "closed":
        server.answers = hang_up
    else:
        settings.EGRESS_ALLOW = frozenset({"127.0.0.1:1"})
        Server.objects.update(base_url="http://127.0.0.1:1/mcp", revision=99)
    assert {made.call().reason for _ in range(5)} == {"upstream"}
    refused = made.call(agent="other")
    assert (refused.reason, refused.refusal.breaker_scope) == ("breaker_open", "server")
    assert row_of(refused.call_id).details["breaker"] == {"state": "OPEN", "failures": 5, "scope": "server"}
    assert not Breaker.objects.for_one().exists(), "the identity's own count ends with the server's breaker"


def test_faults_of_two_identities_close_it_to_all(made: Scene, server: Peer) -> None:
    server.answers = raises
    for agent in ("bot", "bot", "bot", "bot", "other"):
        assert made.call(agent=agent).reason == "upstream"
    refused = made.call(agent="third")
    assert (refused.reason, refused.refusal.breaker_scope) == ("breaker_open", "server")


def test_a_failing_health_check_is_the_second_source(made: Scene, server: Peer) -> None:
    server.answers = raises
    for _ in range(4):
        made.call()

    async def out_of_order(_request: web.Request) -> web.StreamResponse:
        return web.Response(text="<!doctype html>", content_type="text/html")

    server.refuses = out_of_order
    health.check(server=made.server)
    assert made.call(agent="other").refusal.breaker_scope == "server"


def test_health_checks_alone_open_nothing_and_one_that_passes_takes_them_back(made: Scene, server: Peer) -> None:
    async def out_of_order(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=503)

    server.refuses = out_of_order
    for _ in range(6):
        health.check(server=made.server)
    assert (of_all().state, of_all().failure_count) == ("CLOSED", 6)
    server.refuses = None
    health.check(server=made.server)
    assert (of_all().failure_count, of_all().recent_faults) == (0, [])
    server.answers = raises
    made.call()
    server.answers, server.refuses = None, out_of_order
    for _ in range(3):
        health.check(server=made.server)
    server.refuses = None
    health.check(server=made.server)
    assert of_all().failure_count == 1
    assert [source for source, _ in of_all().recent_faults] == [made.made["agents"]["bot"]]


def test_a_success_of_another_identity_does_not_clear_this_ones_faults(made: Scene, server: Peer) -> None:
    for _ in range(4):
        server.answers = raises
        made.call()
        server.answers = None
        assert made.call(agent="other").status == "success"
    assert (of_all().failure_count, own().failure_count) == (0, 4)
    server.answers = raises
    made.call()
    assert own().state == "OPEN"
    server.answers = None
    rest(own())
    assert made.call().status == "success"
    assert (own().state, own().failure_count) == ("CLOSED", 0)
    assert AuditEvent.objects.filter(event="breaker.closed", subject_name="peer for bot").count() == 1


def test_a_probe_of_one_identity_that_fails_opens_it_again_for_that_identity(made: Scene, server: Peer) -> None:
    server.answers = raises
    for _ in range(5):
        made.call()
    rest(own())
    assert made.call().reason == "upstream", "the probe"
    assert made.call().reason == "breaker_open"
    server.answers = None
    assert made.call(agent="other").status == "success"


def outage(made: Scene, server: Peer) -> None:
    """Faults of the connection open the server's breaker; then its recovery time is over, and the server is back."""
    server.mode = "error"
    for _ in range(5):
        made.call(agent="other")
    assert of_all().state == "OPEN"
    server.mode = "echo"
    rest(of_all())


def test_whoever_wins_each_probe_with_calls_that_raise_keeps_nobody_else_out(made: Scene, server: Peer) -> None:
    outage(made, server)
    server.answers = raises
    assert made.call().reason == "upstream", "the probe"
    assert (of_all().state, own().state, own().agent_name, own().failure_count) == ("HALF-OPEN", "OPEN", "bot", 1)
    refused = made.call()
    assert (refused.reason, refused.refusal.breaker_scope) == ("breaker_open", "identity")
    rest(own())
    assert made.call().reason == "upstream", "its next probe is one of both breakers"
    assert (of_all().state, own().state, own().failure_count) == ("HALF-OPEN", "OPEN", 2)
    server.answers = None
    assert made.call(agent="other").status == "success", "the very next call of somebody else"
    assert (of_all().state, of_all().failure_count, of_all().recent_faults) == ("CLOSED", 0, [])
    assert made.call().refusal.breaker_scope == "identity"


def test_probes_of_two_identities_that_fail_close_it_to_all_again(made: Scene, server: Peer) -> None:
    outage(made, server)
    server.answers = raises
    assert made.call().reason == "upstream"
    assert made.call(agent="third").reason == "upstream", "the next caller may try at once"
    assert of_all().state == "OPEN"
    server.answers = None
    refused = made.call(agent="other")
    assert (refused.reason, refused.refusal.breaker_scope) == ("breaker_open", "server")


def test_a_probe_whose_connection_fails_closes_it_to_all_again(made: Scene, server: Peer) -> None:
    outage(made, server)
    server.mode = "error"
    assert made.call().reason == "upstream"
    assert of_all().state == "OPEN"
    assert made.call().refusal.breaker_scope == "server"
    assert not Breaker.objects.for_one().exists()


def test_what_explains_a_decision_says_what_a_call_is_told(made: Scene, server: Peer) -> None:
    server.answers = raises
    for _ in range(5):
        made.call()
    refused, tool = made.call(), made.tool()
    for agent, passes in (("bot", False), ("other", True)):
        found = dry_run.find_conditions(made.made["agents"][agent], tool.pk, {})
        [breaker] = [one for one in found if one.name == "breaker"]
        assert breaker.ok is passes
        assert passes or breaker.message == refused.message


def test_a_reset_lets_the_identity_call_at_once(made: Scene, server: Peer) -> None:
    server.answers = raises
    for _ in range(5):
        made.call()
    server.answers = None
    breakers.reset(actor=cast.admin(), breaker=own(), reason="The tool is mended")
    assert made.call().status == "success"


def test_rows_of_single_identities_do_not_pile_up(made: Scene, server: Peer) -> None:
    server.answers = raises
    for _ in range(5):
        made.call(agent="other")
    server.answers = None
    assert made.call(agent="third").status == "success"
    server.answers = raises
    made.call()
    breakers.remove_unused()
    assert Breaker.objects.for_one().count() == 2
    Breaker.objects.for_one().update(last_failure_time=clock.database_now() - timedelta(hours=2))
    breakers.remove_unused()
    assert [row.state for row in Breaker.objects.for_one()] == ["OPEN"], "who is shut out stays shut out"
    Breaker.objects.for_one().update(last_failure_time=clock.database_now() - timedelta(days=2))
    breakers.remove_unused()
    assert not Breaker.objects.for_one().filter(state=BreakerState.OPEN).exists()
    breakers.remove_unused()
    assert not Breaker.objects.for_one().exists()
    assert AuditEvent.objects.filter(event="breaker.closed").count() == 1
    assert Breaker.objects.for_all().count() == 1


def test_the_general_form_opens_for_all(made: Scene) -> None:
    for _ in range(3):
        breakers.admit_call("llm-api").fail("TimeoutError")
    with pytest.raises(breakers.BreakerOpen):
        breakers.admit_call("llm-api")
    assert Breaker.objects.get(service_name="llm-api").scope == "server"


def test_a_fault_of_a_server_without_a_breaker_is_no_error(made: Scene) -> None:
    Breaker.objects.all().delete()
    with transaction.atomic():
        breakers.record_server_fault(made.server.pk, ServerFault(A, "It is broken."))
    assert made.call().status == "success"
    assert InvocationLog.objects.filter(status="success").count() == 1
