"""Tools at the console: the list, the hub, the change that waits, and who may say yes to it."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from mcp.admin.tools import definition_view
from mcp.choices import DefinitionState
from mcp.models import Server, Tool
from mcp.servers import lifecycle
from nhi.choices import CallStatus
from nhi.models import AuditEvent, CallRollup, Identity
from tests.console import calling, gateway
from tests.console.conftest import SignedIn
from tests.console.reading import main_of, queries, text, words
from tests.mcp.peer import Peer
from tests.nhi.cast import tool_grant

pytestmark = [pytest.mark.capability("MCP-04", "MCP-05", "CON-05"), pytest.mark.django_db]
LIST = "/admin/mcp/tool/"
TABS = ("", "versions/", "access/", "calls/", "budget/", "changes/")


def hub(tool: Tool, tab: str = "") -> str:
    return f"{LIST}{tool.pk}/{tab}"


def approval(client: Client, tool: Tool, **given: Any) -> Any:
    """What the dialog would post, with every flag ticked."""
    page = client.get(hub(tool, "approve/"))
    if page.status_code != 200:
        return page
    body = {name: "on" for name in page.context["form"].fields if name.startswith("flag_")}
    digest = page.context["form"].initial["definition_hash"]
    body |= {"definition_hash": digest, "reason": "Looked at it", "seen": page.context["seen"], **given}
    return client.post(hub(tool, "approve/"), body, follow=True)


@pytest.mark.parametrize("name", ["admin", "mara", "tom", "olga", "ada"])
def test_every_tab_opens_for_whoever_reads_the_register(changed: Tool, signed_in: SignedIn, name: str) -> None:
    client = signed_in(name)
    # A house that has been up for some hours: its calls are summed.
    hour = timezone.now().replace(minute=0, second=0, microsecond=0) - timedelta(hours=3)
    CallRollup.objects.create(
        hour=hour, agent_id=changed.pk, agent_name="bot", tool_name="todo", method="echo", status=CallStatus.SUCCESS,
        calls=1, duration_sum=1, buckets=[1, *[0] * 12],
    )  # fmt: skip
    for tab in (*TABS, "change/"):
        assert client.get(hub(changed, tab)).status_code == 200, tab
    client.get(LIST)  # the session's own write
    for path in (LIST, *(hub(changed, tab) for tab in (*TABS, "change/"))):
        assert queries(client, path) <= 15 + (name == "ada"), path


@pytest.mark.both_databases
def test_the_list_asks_no_more_for_many_rows(todo: Server, mara: Client) -> None:
    hour = timezone.now().replace(minute=0, second=0, microsecond=0) - timedelta(days=3)
    CallRollup.objects.create(
        hour=hour, agent_id=todo.pk, agent_name="bot", tool_name="todo", method="echo", status=CallStatus.SUCCESS,
        calls=7, duration_sum=1, buckets=[7, *[0] * 12],
    )  # fmt: skip
    mara.get(LIST)
    few = queries(mara, LIST)
    owner = todo.owner
    made = Identity.objects.bulk_create(
        Identity(kind="tool", name=f"todo__t{number}", owner=owner, capability=f"todo.t{number}", created_by_name="x")
        for number in range(60)
    )
    Tool.objects.bulk_create(Tool(identity=one, server=todo, name=one.name[6:]) for one in made)
    assert queries(mara, LIST) <= few
    rows = mara.get(f"{LIST}?q=echo").context["rows"]
    cells = [str(cell["html"]) for cell in rows[0]["cells"]]
    assert cells[6] == "7"
    assert "3 d ago" in cells[7]


def test_both_lists_are_exported_with_their_numbers(changed: Tool, mara: Client) -> None:
    tools = words(mara.post(LIST, {"export": "csv"})).splitlines()
    assert tools[0].startswith("Name,Server,Definition,Flags,Owner,May be called by,Calls 30 d")
    assert any(line.startswith("todo__echo,todo,Quarantined,") for line in tools)
    lines = words(mara.post("/admin/mcp/server/", {"export": "csv"})).splitlines()
    assert lines[1].startswith("todo,Ready,Streamable HTTP,2 (1 quarantined)")


def test_calls_that_were_refused_meanwhile_do_not_stand_in_the_way(changed: Tool, signed_in: SignedIn) -> None:
    tom = signed_in("tom")
    page = tom.get(hub(changed, "approve/"))
    calling.denied("definition_changed", server="todo", tool="echo", ago=0)
    assert tom.get(hub(changed, "change/")).context["refused"] == 1
    ticks = {name: "on" for name in page.context["form"].fields if name.startswith("flag_")}
    digest = page.context["form"].initial["definition_hash"]
    body = {**ticks, "definition_hash": digest, "reason": "Looked at it", "seen": page.context["seen"]}
    assert tom.post(hub(changed, "approve/"), body).status_code == 302


def test_filters_and_presets_narrow_the_list(changed: Tool, mara: Client) -> None:
    def names(query: str) -> list[str]:
        return [row["name"] for row in mara.get(f"{LIST}?{query}").context["rows"]]

    assert names("state=quarantined") == ["todo__echo"]
    assert names("state=pending") == ["todo__count"]
    assert names("flagged=yes") == ["todo__echo"]
    assert names("server=todo") == ["todo__count", "todo__echo"]
    assert names("server=todo&deprecated=True") == []


def test_a_change_is_shown_field_by_field_with_its_hidden_marks_and_flags(changed: Tool, signed_in: SignedIn) -> None:
    page = signed_in("tom").get(hub(changed, "change/"))
    assert [line.place for line in page.context["lines"]] == ["description"]
    assert page.context["places"] == ["description"]
    drawn = words(page)
    assert "U+200B" in drawn
    assert "\u200b" not in drawn
    assert drawn.count("names a place where secrets are kept") >= 1
    assert changed.current is not None
    assert changed.current.hash in drawn
    assert "Approve v2" in drawn


def test_the_same_words_stand_unmarked_and_the_others_marked() -> None:
    old, new = definition_view.compared("Create an issue.", "Create an issue now.")
    assert "".join(piece.text for piece in old) == "Create an issue."
    assert "".join(piece.text for piece in new if piece.differs) == " now"


def test_long_texts_are_shown_whole(changed: Tool, signed_in: SignedIn, upstreams: Peer) -> None:
    tail = "the last word of a very long text"
    gateway.change(upstreams, changed.server, description="x" * 50_000 + tail)
    assert tail in words(signed_in("tom").get(hub(changed, "change/")))


def test_somebody_else_approves_and_ticks_each_flag(changed: Tool, signed_in: SignedIn) -> None:
    tom = signed_in("tom")
    page = tom.get(hub(changed, "approve/"))
    ticks = [name for name in page.context["form"].fields if name.startswith("flag_")]
    assert ticks
    one_short = approval(tom, changed, **{ticks[0]: ""})
    assert ticks[0] in one_short.context["form"].errors
    assert gateway.tool_of(changed.server).state == DefinitionState.QUARANTINED
    done = approval(tom, changed)
    assert "todo__echo is approved: calls pass by v2." in words(done)
    assert gateway.tool_of(changed.server).approved_id == changed.current_id


def test_who_had_a_hand_in_it_is_told_why_not_and_who_can(changed: Tool, mara: Client) -> None:
    page = mara.get(hub(changed, "change/"))
    assert "someone else must approve the change." in words(page)
    assert page.context["controls"][0].blocked
    assert "tom" in page.context["others"]
    assert "mara" not in page.context["others"]
    assert mara.get(hub(changed, "approve/")).status_code == 403
    assert approval(mara, changed).status_code == 403
    assert gateway.tool_of(changed.server).state == DefinitionState.QUARANTINED


def test_a_superuser_is_told_that_it_breaks_glass(mara: Client, upstreams: Peer, signed_in: SignedIn) -> None:
    server = gateway.add(upstreams, by="admin")
    gateway.approve(gateway.tool_of(server), by="tom")
    tool = gateway.change(upstreams, server, description="Another")
    admin = signed_in("admin")
    assert "breaking glass" in words(admin.get(hub(tool, "change/")))
    assert "without a second person" in words(admin.get(hub(tool, "approve/")))
    approval(admin, tool)
    assert AuditEvent.objects.get(event="tool.approved", actor_name="admin").details["break_glass"] is True


def test_a_hash_that_has_grown_old_approves_nothing(changed: Tool, signed_in: SignedIn, upstreams: Peer) -> None:
    tom = signed_in("tom")
    page = tom.get(hub(changed, "approve/"))
    body = {name: "on" for name in page.context["form"].fields if name.startswith("flag_")}
    body |= {"definition_hash": page.context["form"].initial["definition_hash"], "reason": "Looked", "seen": ""}
    gateway.change(upstreams, changed.server, description="A third text")
    answer = tom.post(hub(changed, "approve/"), {**body, "seen": page.context["seen"]})
    assert answer.status_code == 409
    assert "Look at it again" in words(answer)
    assert gateway.tool_of(changed.server).state == DefinitionState.QUARANTINED


def test_a_change_of_the_server_is_seen_as_one(todo: Server, signed_in: SignedIn) -> None:
    gateway.approve(gateway.tool_of(todo))
    lifecycle.change(
        actor=gateway.person("mara"), server=todo, headers={"X-A": "${T}"}, secret_values={"T": "Canary-77"}
    )
    page = signed_in("tom").get(hub(gateway.tool_of(todo), "change/"))
    assert {line.place for line in page.context["lines"]} >= {"server.headers.X-A", "server.secrets.T"}
    assert "It came with a change of the server by mara." in words(page)
    assert "Canary" not in words(page)


def test_what_does_not_wait_has_no_change_to_show(todo: Server, mara: Client) -> None:
    tool = gateway.approve(gateway.tool_of(todo))
    assert mara.get(hub(tool, "change/")).headers["Location"] == hub(tool)
    assert "does not wait for an approval" in words(mara.get(hub(tool, "approve/")))


def test_versions_say_who_approved_them_and_why(changed: Tool, signed_in: SignedIn) -> None:
    approval(signed_in("tom"), changed)
    page = words(signed_in("ada").get(hub(changed, "versions/")))
    assert "self-approved" in page
    assert page.count("Looked at it") == 2
    assert "calls go by this" in page


@pytest.mark.parametrize("tab", [*TABS, "change/"])
def test_an_auditor_sees_no_control(changed: Tool, signed_in: SignedIn, tab: str) -> None:
    main = main_of(text(signed_in("ada"), hub(changed, tab)))
    assert "data-dialog" not in main
    assert 'method="post"' not in main


def test_the_identity_of_a_tool_leads_to_its_definition(changed: Tool, mara: Client) -> None:
    page = words(mara.get(f"/admin/nhi/identity/{changed.pk}/"))
    assert f'href="{hub(changed)}"' in page
    assert "Quarantined" in page


def test_access_names_grants_and_roles(changed: Tool, mara: Client) -> None:
    tool_grant(Identity.objects.get(name="triage-bot"), changed.identity)
    page = words(mara.get(hub(changed, "access/")))
    assert "triage-bot" in page
    assert "1 agent" in words(mara.get(hub(changed)))


def test_people_say_of_a_tool_that_it_waits_goes_or_changes_hands(changed: Tool, mara: Client) -> None:
    for verb, body in (("each-call/", {}), ("deprecation/", {}), ("owner/", {"owner": "tom"})):
        page = mara.get(hub(changed, verb))
        mara.post(hub(changed, verb), {**body, "seen": page.context["seen"]})
    tool = gateway.tool_of(changed.server)
    assert (tool.requires_approval, tool.deprecated, tool.identity.owner.username) == (True, True, "tom")
    assert AuditEvent.objects.filter(event="tool.changed", subject_id=tool.pk).count() == 2
    page = words(mara.get(hub(changed)))
    assert "Deprecated" in page
    assert "waits for a person" in page


def test_only_who_may_changes_a_tool(changed: Tool, signed_in: SignedIn) -> None:
    for name in ("tom", "olga", "ada"):
        for verb in ("each-call/", "deprecation/", "owner/"):
            assert signed_in(name).post(hub(changed, verb), {"owner": "tom"}).status_code == 403


def test_first_definitions_of_one_server_are_approved_together(
    changed: Tool, signed_in: SignedIn, upstreams: Peer
) -> None:
    upstreams.tools.append({**upstreams.tools[1], "name": "flagged", "description": gateway.HIDDEN})
    server = changed.server
    gateway.change(upstreams, server)
    tom = signed_in("tom")
    ids = "&".join(f"id={tool.pk}" for tool in Tool.objects.filter(server=server))
    path = f"{LIST}bulk/approve/?{ids}"
    page = tom.get(path)
    assert [tool.name for tool in page.context["tools"]] == ["count"]
    assert len(page.context["skipped"]) == 2
    body = {"hashes": page.context["form"].initial["hashes"], "reason": "First import", "seen": page.context["seen"]}
    stale = {**body, "hashes": body["hashes"][:-4] + "0000"}
    assert [item.result for item in tom.post(path, stale).context["results"]] == ["refused", "skipped", "skipped"]
    assert [item.result for item in tom.post(path, body).context["results"]] == ["done", "skipped", "skipped"]
    assert gateway.tool_of(server).state == DefinitionState.QUARANTINED
    assert gateway.tool_of(server, "count").state == DefinitionState.APPROVED


def test_first_definitions_are_ticked_on_their_servers_own_tab(changed: Tool, signed_in: SignedIn) -> None:
    tab, count = f"/admin/mcp/server/{changed.server_id}/tools/", gateway.tool_of(changed.server, "count")
    tom = signed_in("tom")
    page = words(tom.get(tab))
    assert f'formaction="{LIST}bulk/approve/"' in page
    assert re.findall(r'name="id" value="([^"]+)"', page) == [str(count.pk)]
    path = f"{LIST}bulk/approve/?from=server&id={count.pk}"
    dialog = tom.get(path)
    assert f'href="{tab}"' in words(dialog)
    body = {"hashes": dialog.context["form"].initial["hashes"], "reason": "First", "seen": dialog.context["seen"]}
    assert tom.post(path, body).context["back"] == tab
    assert "data-bulk" not in words(tom.get(tab))
    for name in ("olga", "ada"):
        assert "bulk/approve" not in words(signed_in(name).get(tab)), name


def test_two_servers_are_not_approved_at_once(todo: Server, mara: Client, upstreams: Peer) -> None:
    other = gateway.add(upstreams, name="other")
    ids = [gateway.tool_of(one, "count").pk for one in (todo, other)]
    path = f"{LIST}bulk/approve/?id={ids[0]}&id={ids[1]}"
    assert "Approve the tools of one server at a time" in words(mara.get(path))
    page = mara.get(path)
    mara.post(path, {"hashes": "", "reason": "x", "seen": page.context["seen"]})
    assert not Tool.objects.filter(state="approved").exists()


@pytest.mark.both_databases
def test_home_tells_whoever_may_approve_and_not_who_made_the_change(changed: Tool, signed_in: SignedIn) -> None:
    def cards(name: str) -> list[str]:
        return [card["words"] for card in signed_in(name).get("/admin/").context["cards"]]

    assert "1 tool quarantined" in cards("tom")
    assert "1 tool quarantined" in cards("admin")
    assert "1 tool quarantined" not in cards("mara")
    assert "1 tool quarantined" not in cards("olga")
    assert "1 new tool needs approval" in cards("mara")


def test_a_server_tells_of_its_quarantined_tools(changed: Tool, mara: Client) -> None:
    assert "1 quarantined" in words(mara.get(f"/admin/mcp/server/{changed.server_id}/"))
    assert "1 quarantined" in words(mara.get("/admin/mcp/server/"))
    rows = mara.get(f"/admin/mcp/server/{changed.server_id}/tools/?state=waiting").context["rows"]
    assert [tool.name for tool in rows] == ["count", "echo"]
