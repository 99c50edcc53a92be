"""Adding and editing a server: problems beside their fields, what would run shown whole, secrets never drawn."""

import re
from typing import Any

import pytest
from django.test import Client

from mcp.models import Server, Tool
from nhi.models import AuditEvent
from tests.console import gateway
from tests.console.conftest import SignedIn
from tests.console.gateway import PYTHON, TODO
from tests.console.reading import words
from tests.console.servers import LIST, TABS, hub
from tests.mcp.peer import Peer

pytestmark = [pytest.mark.capability("MCP-01", "MCP-03", "CON-05"), pytest.mark.django_db]
FORM = {"name": "second", "transport": "http", "owner": "mara", "timeout": "30"}


def test_a_server_is_added_met_and_what_came_of_it_is_said(mara: Client, upstreams: Peer) -> None:
    page = mara.post(f"{LIST}add/", {**FORM, "base_url": upstreams.url}, follow=True)
    assert "second is ready. 2 tools need an approval first." in words(page)
    assert page.context["title"] == "second"


def test_one_that_does_not_answer_is_added_with_its_diagnosis(mara: Client, settings: Any) -> None:
    settings.EGRESS_ALLOW = frozenset({"127.0.0.1:9"})
    page = words(mara.post(f"{LIST}add/", {**FORM, "base_url": "http://127.0.0.1:9/mcp"}, follow=True))
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
    page = words(mara.get(f"{LIST}add/"))
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
    assert "Line 2" in words(answer)


def test_what_would_run_is_shown_whole_before_it_is_saved(mara: Client, settings: Any) -> None:
    settings.EXECUTABLE_ALLOWLIST = None
    long = "x" * 1500
    body = {**FORM, "transport": "stdio", "command": PYTHON, "args": f"{TODO}\n--store\n/tmp/a b\n{long}"}
    answer = mara.post(f"{LIST}add/", body)
    assert answer.status_code == 409
    assert not Server.objects.exists()
    shown = answer.context["look"]
    assert shown["line"].endswith(f"--store '/tmp/a b' {long}")
    assert long in words(answer)
    told = mara.post(f"{LIST}add/preview/", {**body, "env": "TZ=Europe/Vienna"}, headers={"X-Console-Part": "1"})
    assert "TZ=Europe/Vienna" in words(told)
    preview = mara.post(f"{LIST}add/preview/", body, headers={"X-Console-Part": "1"})
    assert long in words(preview)
    assert shown["shown"] in words(preview)
    other = {**body, "args": f"{TODO}\n--other", "shown": shown["shown"]}
    assert mara.post(f"{LIST}add/", other).status_code == 409
    assert not Server.objects.exists()


def test_secrets_are_written_and_never_drawn(todo: Server, mara: Client) -> None:
    change = {**FORM, "base_url": todo.base_url, "headers": "Authorization: Bearer ${TOKEN}"}
    secret = {"secret_name_0": "TOKEN", "secret_value_0": "Canary-7Q2F-canary"}
    wrong = mara.post(hub(todo, "change/"), {**change, **secret, "timeout": "0"})
    assert wrong.status_code == 422
    assert "Canary" not in words(wrong)
    assert mara.post(hub(todo, "change/"), {**change, **secret}).status_code == 302
    for tab in (*TABS, "change/"):
        page = words(mara.get(hub(todo, tab)))
        assert "Canary" not in page, tab
    assert "TOKEN" in words(mara.get(hub(todo, "secrets/")))
    assert "by mara" in words(mara.get(hub(todo, "change/")))
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
    assert "quarantined" not in words(mara.post(preview, {**same, "description": "Other words"}, **part))
    assert "1 approved tool is quarantined" in words(mara.post(preview, {**same, "headers": "X-A: 1"}, **part))
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
