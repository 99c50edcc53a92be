"""Servers at the console: the list, the hub and its tabs, the verbs, and the processes that run here."""

from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from mcp.choices import BreakerState, Connection
from mcp.limits import breakers
from mcp.models import Breaker, Call, HealthReport, Server
from mcp.servers import health, lifecycle, status_changes
from nhi.models import Identity
from tests.console import gateway
from tests.console.conftest import SignedIn
from tests.console.gateway import PYTHON, TODO
from tests.console.reading import queries, words
from tests.console.servers import LIST, TABS, hub
from tests.mcp.peer import Peer
from tests.nhi.cast import tool_grant
from tests.owner import stage

pytestmark = [pytest.mark.capability("MCP-01", "MCP-03", "CON-05"), pytest.mark.django_db]


def test_every_tab_opens_for_whoever_reads_the_register_and_for_nobody_else(todo: Server, signed_in: SignedIn) -> None:
    for name in ("admin", "mara", "tom", "olga", "ada"):
        client = signed_in(name)
        for tab in TABS:
            assert client.get(hub(todo, tab)).status_code == 200, (name, tab)
        assert client.get(LIST).status_code == 200


def test_the_strip_says_how_it_is_since_when_and_why(todo: Server, mara: Client) -> None:
    page = words(mara.get(hub(todo)))
    assert "Ready" in page
    assert "It answers." in page
    assert "2 need approval" in page


def test_no_page_of_a_server_asks_more_than_fifteen_times(todo: Server, mara: Client) -> None:
    for tab in TABS:
        assert queries(mara, hub(todo, tab)) <= 15, tab


@pytest.mark.parametrize("tab", TABS)
def test_an_auditor_sees_no_control(todo: Server, signed_in: SignedIn, tab: str) -> None:
    page = words(signed_in("ada").get(hub(todo, tab)))
    main = page[page.index("<main") : page.index("</main>")]
    assert "data-dialog" not in main
    assert 'method="post"' not in main


def test_a_test_says_what_came_of_it(todo: Server, mara: Client) -> None:
    page = words(mara.post(hub(todo, "test/"), follow=True))
    assert "todo answered in" in page
    assert HealthReport.objects.filter(server=todo, asked_by="mara").count() == 1
    Server.objects.filter(pk=todo.pk).update(base_url="http://127.0.0.1:9/mcp")
    page = words(mara.post(hub(todo, "test/"), follow=True))
    assert "todo did not answer" in page
    assert "How to mend it" not in page  # one failure does not take a ready server down
    assert "It ended with" in page


def test_a_server_that_is_down_says_how_to_mend_it(todo: Server, mara: Client) -> None:
    Server.objects.filter(pk=todo.pk).update(base_url="http://127.0.0.1:9/mcp")
    for _ in range(3):
        health.check(server=Server.objects.get(pk=todo.pk))
    todo.refresh_from_db()
    assert todo.status == Connection.OFFLINE
    page = words(mara.get(hub(todo)))
    assert "How to mend it" in page


def test_handshake_and_last_fault_stand_apart_with_their_times(todo: Server, mara: Client) -> None:
    met = HealthReport.objects.filter(server=todo).latest("timestamp")
    told = mara.get(hub(todo)).context["diagnosis"]
    assert (told.met, told.fault, told.of_handshake) == (met, "", False)
    assert "None was counted." in words(mara.get(hub(todo)))
    breakers.record_fault(Breaker.objects.get(server=todo), call_id=None, reason="502 of the server")
    status_changes.record_fault(todo.pk, "502 of the server")
    page = mara.get(hub(todo))
    told, counted = page.context["diagnosis"], Breaker.objects.get(server=todo).last_failure_time
    assert (told.met, told.fault, told.fault_at, told.of_handshake) == (met, "502 of the server", counted, False)
    assert "ended with" not in words(page)
    assert "of a call: " in words(page)


def test_a_handshake_that_fails_is_the_last_fault_itself(todo: Server, mara: Client, settings: Any) -> None:
    settings.EGRESS_ALLOW = frozenset()
    health.check(server=todo)
    told = mara.get(hub(todo)).context["diagnosis"]
    assert told.of_handshake
    assert told.fault_at == told.met.timestamp
    assert "that handshake." in words(mara.get(hub(todo)))


def test_refresh_says_what_is_new(todo: Server, mara: Client, upstreams: Peer) -> None:
    upstreams.tools.append({**upstreams.tools[0], "name": "third"})
    page = words(mara.post(hub(todo, "refresh/"), follow=True))
    assert "Tools: 1 new, 2 as before." in page
    upstreams.tools.pop()
    assert "1 gone" in words(mara.post(hub(todo, "refresh/"), follow=True))


def test_disable_counts_what_it_takes_away_and_enable_meets_it_again(todo: Server, mara: Client) -> None:
    tool = gateway.tool_of(todo)
    gateway.approve(tool)
    tool_grant(Identity.objects.get(name="triage-bot"), tool.identity)
    page = mara.get(hub(todo, "disable/"))
    told = [effect.words for effect in page.context["effects"]]
    assert told[0].startswith("1 tool becomes unavailable to ")
    page = mara.post(hub(todo, "disable/"), {"reason": "Maintenance", "seen": page.context["seen"]}, follow=True)
    assert "todo is disabled." in words(page)
    assert "Disabled" in words(page)
    assert "It is disabled." in words(page)  # beside Test now
    page = mara.post(hub(todo, "enable/"), {"reason": "Ready for use", "seen": ""}, follow=True)
    assert "todo is enabled and ready" in words(page)


def test_a_breaker_is_reset_with_a_reason(todo: Server, mara: Client) -> None:
    breaker = Breaker.objects.get(server=todo)
    assert "It is closed and has counted no fault." in words(mara.get(hub(todo)))
    for _ in range(5):
        breakers.record_fault(breaker, call_id=None, reason="503")
    assert "Open, calls refused" in words(mara.get(hub(todo)))
    page = mara.get(hub(todo, "reset-breaker/"))
    mara.post(hub(todo, "reset-breaker/"), {"reason": "Problem solved", "seen": page.context["seen"]})
    breaker.refresh_from_db()
    assert breaker.state == BreakerState.CLOSED


def test_the_palette_finds_a_server_and_its_verbs(todo: Server, mara: Client, signed_in: SignedIn) -> None:
    page = words(mara.get("/admin/search/?s=todo"))
    assert hub(todo) in page
    assert "Disable todo…" in page
    page = words(mara.get("/admin/search/?s=test+todo"))
    assert "Test todo" in page
    assert "Disable todo" not in page
    assert "Test todo" not in words(signed_in("tom").get("/admin/search/?s=todo"))
    assert "Add a server…" in words(mara.get("/admin/search/?s=add+server"))


def test_an_offline_server_needs_an_operator(todo: Server, signed_in: SignedIn) -> None:
    Server.objects.filter(pk=todo.pk).update(status=Connection.OFFLINE)
    assert "1 server offline" in words(signed_in("olga").get("/admin/"))
    assert "server offline" not in words(signed_in("tom").get("/admin/"))


def test_changes_and_calls_in_flight_are_shown(todo: Server, mara: Client) -> None:
    Call.objects.create(
        agent_id=todo.pk, server_id=todo.pk, tool_id=todo.pk, owner=todo.pk, deadline=timezone.now(), row={}
    )
    lifecycle.change(actor=gateway.person("mara"), server=todo, description="Keeps a list")
    assert "added the server" in words(mara.get(hub(todo, "changes/")))
    assert "1 call in flight finishes" in words(mara.get(hub(todo, "disable/")))
    assert "Keeps a list" in words(mara.get(hub(todo)))


def local(mara: Client, **described: Any) -> Server:
    """A server that runs here, put down without being met."""
    owner = gateway.person("mara")
    return Server.objects.create(
        **{"name": "local", "owner_id": owner.id, "transport": "stdio", "created_by_name": "mara", **described}
    )


def test_a_process_is_shown_with_its_pid_and_its_last_words(mara: Client, settings: Any, tmp_path: Path) -> None:
    with stage.owner(tmp_path) as house:
        settings.STDIO_SOCKET = house.data / "stdio.sock"
        target = house.add_program(PYTHON, str(TODO))
        server = local(mara, pk=target.server_id, command=PYTHON, args=[str(TODO)])
        try:
            assert health.check(server=server).handshake_success
            shown = mara.get(hub(server)).context["process"]
        finally:
            gateway.end()
        assert shown.pid in {one.pid for one in house.descendants()}
        assert (shown.starts, shown.failures) == (1, 0)


def test_without_the_process_that_runs_servers_the_page_stands_and_says_so(
    mara: Client, settings: Any, tmp_path: Path
) -> None:
    settings.STDIO_SOCKET = tmp_path / "nowhere.sock"
    server = local(mara, command=PYTHON, args=[str(TODO)])
    page = mara.get(hub(server))
    gateway.end()
    assert page.context["process"].trouble
    assert page.context["process"].trouble in words(page).replace("&#x27;", "'")
