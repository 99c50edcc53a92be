"""Servers at the console: the list, the hub and its tabs, adding, editing, and the verbs."""

import re
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mcp import breakers, connections, health, rollups, servers
from mcp.admin.servers_numbers import of_servers
from mcp.choices import BreakerState, Connection
from mcp.models import Breaker, Call, HealthReport, Server, Tool
from nhi.choices import CallStatus
from nhi.models import AuditEvent, CallRollup, Identity
from tests.console import calling, gateway
from tests.console.conftest import SignedIn
from tests.console.gateway import upstreams as upstreams
from tests.mcp.peer import Peer
from tests.nhi.cast import tool_grant
from tests.owner import stage

pytestmark = [pytest.mark.capability("MCP-01", "MCP-03", "CON-05"), pytest.mark.django_db]
LIST = "/admin/mcp/server/"
TABS = ("", "tools/", "health/", "limits/", "secrets/", "calls/", "changes/")
PYTHON, TODO = sys.executable, Path(__file__).resolve().parents[2] / "examples" / "todo_server.py"


def hub(server: Server, tab: str = "") -> str:
    return f"{LIST}{server.pk}/{tab}"


@pytest.fixture
def todo(mara: Client, upstreams: Peer) -> Iterator[Server]:
    return gateway.add(upstreams)


def text(answer: Any) -> str:
    return str(answer.content.decode())


def test_every_tab_opens_for_whoever_reads_the_register_and_for_nobody_else(todo: Server, signed_in: SignedIn) -> None:
    for name in ("admin", "mara", "tom", "olga", "ada"):
        client = signed_in(name)
        for tab in TABS:
            assert client.get(hub(todo, tab)).status_code == 200, (name, tab)
        assert client.get(LIST).status_code == 200


def test_the_strip_says_how_it_is_since_when_and_why(todo: Server, mara: Client) -> None:
    page = text(mara.get(hub(todo)))
    assert "Ready" in page
    assert "It answers." in page
    assert "2 need approval" in page


@pytest.mark.both_databases
def test_the_list_shows_numbers_of_a_day_in_as_many_queries_for_many_rows_as_for_one(
    todo: Server, mara: Client
) -> None:
    now = timezone.now()
    CallRollup.objects.create(
        hour=now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=3), agent_id=todo.pk, agent_name="bot",
        tool_name="todo", method="echo", status=CallStatus.SUCCESS, calls=19, duration_sum=100,
        buckets=[0, 19, *[0] * 11],
    )  # fmt: skip
    CallRollup.objects.create(
        hour=now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=3), agent_id=todo.pk, agent_name="bot",
        tool_name="todo", method="echo", status=CallStatus.ERROR, calls=1, duration_sum=100,
        buckets=[0, 0, 0, 0, 0, 0, 0, 0, 1, *[0] * 4],
    )  # fmt: skip
    numbers = of_servers(["todo"], span=timedelta(days=1))["todo"]
    assert (numbers.calls, numbers.error_percent, numbers.p95) == (20, 5.0, "≤ 10 ms")
    mara.get(LIST)  # the session's own write
    few = queries(mara, LIST)
    owner = todo.owner
    Server.objects.bulk_create(
        Server(
            name=f"s{number}", owner=owner, transport="http", base_url="https://example.com/mcp", created_by_name="x"
        )
        for number in range(60)
    )
    many = queries(mara, LIST)
    assert many <= few
    assert many <= 15
    assert "5 %" in text(mara.get(f"{LIST}?q=todo"))


def queries(client: Client, path: str) -> int:
    cache.clear()
    with CaptureQueriesContext(connection) as seen:
        assert client.get(path).status_code == 200
    return len(seen)


def test_no_page_of_a_server_asks_more_than_fifteen_times(todo: Server, mara: Client) -> None:
    mara.get(LIST)  # the session's own write
    for tab in TABS:
        assert queries(mara, hub(todo, tab)) <= 15, tab


@pytest.mark.parametrize("tab", TABS)
def test_an_auditor_sees_no_control(todo: Server, signed_in: SignedIn, tab: str) -> None:
    page = text(signed_in("ada").get(hub(todo, tab)))
    main = page[page.index("<main") : page.index("</main>")]
    assert "data-dialog" not in main
    assert 'method="post"' not in main


def test_a_test_says_what_came_of_it(todo: Server, mara: Client) -> None:
    page = text(mara.post(hub(todo, "test/"), follow=True))
    assert "todo answered in" in page
    assert HealthReport.objects.filter(server=todo, asked_by="mara").count() == 1
    Server.objects.filter(pk=todo.pk).update(base_url="http://127.0.0.1:9/mcp")
    page = text(mara.post(hub(todo, "test/"), follow=True))
    assert "todo did not answer" in page
    assert "How to mend it" not in page  # one failure does not take a ready server down
    assert "It ended with" in page


def test_a_server_that_is_down_says_how_to_mend_it(todo: Server, mara: Client) -> None:
    Server.objects.filter(pk=todo.pk).update(base_url="http://127.0.0.1:9/mcp")
    for _ in range(3):
        health.check(server=Server.objects.get(pk=todo.pk))
    todo.refresh_from_db()
    assert todo.status == Connection.OFFLINE
    page = text(mara.get(hub(todo)))
    assert "How to mend it" in page


def test_handshake_and_last_fault_stand_apart_with_their_times(todo: Server, mara: Client) -> None:
    met = HealthReport.objects.filter(server=todo).latest("timestamp")
    told = mara.get(hub(todo)).context["diagnosis"]
    assert (told.met, told.fault, told.of_handshake) == (met, "", False)
    assert "None was counted." in text(mara.get(hub(todo)))
    breakers.fault(Breaker.objects.get(server=todo), call_id=None, why="502 of the server")
    connections.faulted(todo.pk, "502 of the server")
    page = mara.get(hub(todo))
    told, counted = page.context["diagnosis"], Breaker.objects.get(server=todo).last_failure_time
    assert (told.met, told.fault, told.fault_at, told.of_handshake) == (met, "502 of the server", counted, False)
    assert "ended with" not in text(page)
    assert "of a call: " in text(page)


def test_a_handshake_that_fails_is_the_last_fault_itself(todo: Server, mara: Client, settings: Any) -> None:
    settings.EGRESS_ALLOW = frozenset()
    health.check(server=todo)
    told = mara.get(hub(todo)).context["diagnosis"]
    assert told.of_handshake
    assert told.fault_at == told.met.timestamp
    assert "that handshake." in text(mara.get(hub(todo)))


def test_refresh_says_what_is_new(todo: Server, mara: Client, upstreams: Peer) -> None:
    upstreams.tools.append({**upstreams.tools[0], "name": "third"})
    page = text(mara.post(hub(todo, "refresh/"), follow=True))
    assert "Tools: 1 new, 2 as before." in page
    upstreams.tools.pop()
    assert "1 gone" in text(mara.post(hub(todo, "refresh/"), follow=True))


def test_disable_counts_what_it_takes_away_and_enable_meets_it_again(todo: Server, mara: Client) -> None:
    tool = gateway.tool_of(todo)
    gateway.approve(tool)
    tool_grant(Identity.objects.get(name="triage-bot"), tool.identity)
    page = mara.get(hub(todo, "disable/"))
    words = [effect.words for effect in page.context["effects"]]
    assert words[0].startswith("1 tool becomes unavailable to ")
    page = mara.post(hub(todo, "disable/"), {"reason": "Maintenance", "seen": page.context["seen"]}, follow=True)
    assert "todo is disabled." in text(page)
    assert "Disabled" in text(page)
    assert "It is disabled." in text(page)  # beside Test now
    page = mara.post(hub(todo, "enable/"), {"reason": "Ready for use", "seen": ""}, follow=True)
    assert "todo is enabled and ready" in text(page)


def test_a_breaker_is_reset_with_a_reason(todo: Server, mara: Client) -> None:
    breaker = Breaker.objects.get(server=todo)
    assert "It is closed and has counted no fault." in text(mara.get(hub(todo)))
    for _ in range(5):
        breakers.fault(breaker, call_id=None, why="503")
    assert "Open, calls refused" in text(mara.get(hub(todo)))
    page = mara.get(hub(todo, "reset-breaker/"))
    mara.post(hub(todo, "reset-breaker/"), {"reason": "Problem solved", "seen": page.context["seen"]})
    breaker.refresh_from_db()
    assert breaker.state == BreakerState.CLOSED


FORM = {"name": "second", "transport": "http", "owner": "mara", "timeout": "30"}


def test_a_server_is_added_met_and_what_came_of_it_is_said(mara: Client, upstreams: Peer) -> None:
    page = mara.post(f"{LIST}add/", {**FORM, "base_url": upstreams.url}, follow=True)
    assert "second is ready. 2 tools need an approval first." in text(page)
    assert page.context["title"] == "second"


def test_one_that_does_not_answer_is_added_with_its_diagnosis(mara: Client, settings: Any) -> None:
    settings.EGRESS_ALLOW = frozenset({"127.0.0.1:9"})
    page = text(mara.post(f"{LIST}add/", {**FORM, "base_url": "http://127.0.0.1:9/mcp"}, follow=True))
    assert "second was saved and is offline" in page
    assert "Nothing listens there" in page


def test_all_problems_stand_beside_their_fields(mara: Client) -> None:
    body = {
        **FORM, "name": "Not A Name", "base_url": "ftp://nowhere", "timeout": "9999", "schema_version": "one",
        "headers": "Host: x\nX-Token: ${MISSING}", "owner": "nobody",
    }  # fmt: skip
    errors = mara.post(f"{LIST}add/", body).context["form"].errors
    assert set(errors) == {"name", "base_url", "timeout", "schema_version", "headers", "owner"}
    assert [len(errors[name]) for name in ("name", "owner", "timeout")] == [1, 1, 1]
    assert any("MISSING" in one for one in errors["headers"])
    assert any(one.startswith("X-Token: ") for one in errors["headers"])
    assert not Server.objects.filter(name="second").exists()


def test_what_may_be_left_out_says_so(mara: Client) -> None:
    page = text(mara.get(f"{LIST}add/"))
    found = dict(re.findall(r'<label for="id_(\w+)">[^<]*(<span class="gh-subtle">\(optional\)</span>)?', page))
    assert all(found[name] for name in ("headers", "args", "env", "description"))
    assert not any(found[name] for name in ("name", "base_url", "command", "timeout"))


def test_what_form_and_verb_refuse_stands_together(todo: Server, mara: Client) -> None:
    wrong = {
        "name": todo.name,
        "transport": "http",
        "owner": "",
        "timeout": "soon",
        "base_url": "",
        "headers": "nonsense",
    }
    secret = {"secret_name_0": "1TOKEN", "secret_value_0": "Canary-7Q2F-canary", "secret_value_1": "nameless"}
    errors = mara.post(f"{LIST}add/", {**wrong, **secret}).context["form"].errors
    assert set(errors) == {"name", "owner", "timeout", "base_url", "headers", "secret_name_0", "secret_name_1"}
    assert errors["name"] == ["This name is taken."]
    process = {
        "name": "Not A Name",
        "transport": "stdio",
        "owner": "nobody",
        "timeout": "",
        "env": "PATH",
        "command": "x",
    }
    answer = mara.post(f"{LIST}add/", process)
    assert set(answer.context["form"].errors) == {"name", "owner", "timeout", "env", "command"}
    changed = mara.post(hub(todo, "change/"), {"transport": "http", "owner": "", "timeout": "0", "base_url": "ftp://x"})
    assert set(changed.context["form"].errors) == {"owner", "timeout", "base_url"}


def test_lines_that_are_no_pairs_are_said_by_their_number(mara: Client) -> None:
    answer = mara.post(f"{LIST}add/", {**FORM, "base_url": "https://example.com", "headers": "X-A: 1\nnonsense"})
    assert "Line 2" in text(answer)


def test_what_would_run_is_shown_whole_before_it_is_saved(mara: Client, settings: Any) -> None:
    settings.EXECUTABLE_ALLOWLIST = None
    long = "x" * 1500
    body = {**FORM, "transport": "stdio", "command": PYTHON, "args": f"{TODO}\n--store\n/tmp/a b\n{long}"}
    answer = mara.post(f"{LIST}add/", body)
    assert answer.status_code == 409
    assert not Server.objects.exists()
    shown = answer.context["look"]
    assert shown["line"].endswith(f"--store '/tmp/a b' {long}")
    assert long in text(answer)
    told = mara.post(f"{LIST}add/preview/", {**body, "env": "TZ=Europe/Vienna"}, headers={"X-Console-Part": "1"})
    assert "TZ=Europe/Vienna" in text(told)
    preview = mara.post(f"{LIST}add/preview/", body, headers={"X-Console-Part": "1"})
    assert long in text(preview)
    assert shown["shown"] in text(preview)
    other = {**body, "args": f"{TODO}\n--other", "shown": shown["shown"]}
    assert mara.post(f"{LIST}add/", other).status_code == 409
    assert not Server.objects.exists()


def test_secrets_are_written_and_never_drawn(todo: Server, mara: Client) -> None:
    change = {**FORM, "base_url": todo.base_url, "headers": "Authorization: Bearer ${TOKEN}"}
    secret = {"secret_name_0": "TOKEN", "secret_value_0": "Canary-7Q2F-canary"}
    wrong = mara.post(hub(todo, "change/"), {**change, **secret, "timeout": "0"})
    assert wrong.status_code == 422
    assert "Canary" not in text(wrong)
    assert mara.post(hub(todo, "change/"), {**change, **secret}).status_code == 302
    for tab in (*TABS, "change/"):
        page = text(mara.get(hub(todo, tab)))
        assert "Canary" not in page, tab
    assert "TOKEN" in text(mara.get(hub(todo, "secrets/")))
    assert "by mara" in text(mara.get(hub(todo, "change/")))
    set_at = todo.secrets.get().set_at
    mara.post(hub(todo, "change/"), {**change, "secret:TOKEN": "", "description": "Kept"})
    assert todo.secrets.get().set_at == set_at
    mara.post(hub(todo, "change/"), {**change, "secret:TOKEN": "Another-canary"})
    assert todo.secrets.get().set_at > set_at
    mara.post(hub(todo, "change/"), {**change, "headers": "", "remove:TOKEN": "on"})
    assert not todo.secrets.exists()
    assert not AuditEvent.objects.filter(after__icontains="anary").exists()


def test_editing_says_before_it_is_saved_that_tools_must_be_approved_again(todo: Server, mara: Client) -> None:
    gateway.approve(gateway.tool_of(todo))
    same = {**FORM, "base_url": todo.base_url}
    preview = hub(todo, "change/preview/")
    part = {"headers": {"X-Console-Part": "1"}}
    assert "quarantined" not in text(mara.post(preview, {**same, "description": "Other words"}, **part))
    assert "1 approved tool is quarantined" in text(mara.post(preview, {**same, "headers": "X-A: 1"}, **part))
    mara.post(hub(todo, "change/"), {**same, "description": "Other words"})
    assert Tool.objects.filter(server=todo, state="approved").count() == 1
    mara.post(hub(todo, "change/"), {**same, "headers": "X-A: 1"})
    assert Tool.objects.filter(server=todo, state="quarantined").count() == 1


def test_operators_run_servers_and_do_not_change_them(todo: Server, signed_in: SignedIn) -> None:
    olga, tom = signed_in("olga"), signed_in("tom")
    assert olga.post(hub(todo, "test/")).status_code == 302
    for path in (f"{LIST}add/", hub(todo, "change/")):
        assert olga.get(path).status_code == 403
        assert olga.post(path, FORM).status_code == 403
    for verb in ("test/", "refresh/", "disable/", "reset-breaker/"):
        assert tom.post(hub(todo, verb), {"reason": "x"}).status_code == 403


def test_the_palette_finds_a_server_and_its_verbs(todo: Server, mara: Client, signed_in: SignedIn) -> None:
    page = text(mara.get("/admin/search/?s=todo"))
    assert hub(todo) in page
    assert "Disable todo…" in page
    page = text(mara.get("/admin/search/?s=test+todo"))
    assert "Test todo" in page
    assert "Disable todo" not in page
    assert "Test todo" not in text(signed_in("tom").get("/admin/search/?s=todo"))
    assert "Add a server…" in text(mara.get("/admin/search/?s=add+server"))


def test_an_offline_server_needs_an_operator(todo: Server, signed_in: SignedIn) -> None:
    Server.objects.filter(pk=todo.pk).update(status=Connection.OFFLINE)
    assert "1 server offline" in text(signed_in("olga").get("/admin/"))
    assert "server offline" not in text(signed_in("tom").get("/admin/"))


def test_changes_and_calls_in_flight_are_shown(todo: Server, mara: Client) -> None:
    Call.objects.create(
        agent_id=todo.pk, server_id=todo.pk, tool_id=todo.pk, owner=todo.pk, deadline=timezone.now(), row={}
    )
    servers.change(actor=gateway.person("mara"), server=todo, description="Keeps a list")
    assert "added the server" in text(mara.get(hub(todo, "changes/")))
    assert "1 call in flight finishes" in text(mara.get(hub(todo, "disable/")))
    assert "Keeps a list" in text(mara.get(hub(todo)))


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
    assert page.context["process"].trouble in text(page).replace("&#x27;", "'")


@pytest.mark.both_databases
def test_only_faults_of_the_server_are_its_errors_among_the_calls_that_reached_it(mara: Client) -> None:
    tool = calling.registered()
    for _ in range(2):
        calling.call()
        calling.denied()
    ended: list[tuple[str, float]] = [
        ("upstream", 9.0), ("timeout", 30.0), ("tool_error", 9.0), ("invalid_parameters", 9.0), ("cancelled", 9.0),
        ("invalid_parameters", 0.0), ("breaker_open", 0.0), ("breaker_open", 0.0),
    ]  # fmt: skip
    for reason, duration in ended:
        calling.call(status="error", end={"reason": reason, "duration": duration})
    server = of_servers(["github"], span=timedelta(days=1))["github"]
    assert (server.calls, server.made, server.errors, server.error_percent) == (12, 7, 2, 28.6)
    said = "12, 7 reached the server, 2 of these failed (28.6 %)"
    paths = (hub(tool.server), hub(tool.server, "calls/"), f"/admin/mcp/tool/{tool.pk}/calls/")
    for path in paths:
        assert said in text(mara.get(path)), path
    assert "28.6 %" in text(mara.get(f"{LIST}?q=github"))


@pytest.mark.both_databases
def test_errors_of_hours_that_were_summed_are_told_apart_too(mara: Client) -> None:
    calling.registered()
    for reason, duration in (("upstream", 9.0), ("breaker_open", 0.0), ("tool_error", 9.0)):
        calling.call(status="error", ago=5 * 3600, end={"reason": reason, "duration": duration})
    rollups.roll_up()
    assert CallRollup.objects.filter(status=CallStatus.ERROR).exists()
    numbers = of_servers(["github"], span=timedelta(days=1))["github"]
    assert (numbers.calls, numbers.made, numbers.errors) == (3, 2, 1)
