"""Servers and tools in a real browser: the journey to an approval, forms that follow the choice, and axe."""

import re
import sys
from typing import Any

import pytest
from playwright.sync_api import expect

from mcp.choices import DefinitionState
from mcp.models import Server, Tool
from tests.console import gateway
from tests.console.axe import violations
from tests.console.conftest import NARROW, Visit
from tests.console.gateway import TODO
from tests.mcp.peer import Peer

pytestmark = [pytest.mark.browser, pytest.mark.capability("CON-05", "CON-06", "MCP-05")]
SERVERS, TOOLS = "/admin/mcp/server/", "/admin/mcp/tool/"
SERVER_TABS = ("", "tools/", "health/", "limits/", "secrets/", "calls/", "changes/", "change/")
TOOL_TABS = ("", "change/", "versions/", "access/", "calls/", "budget/", "changes/")
DIALOGS = ("disable/", "reset-breaker/", "test/")
TOOL_DIALOGS = ("approve/", "owner/", "each-call/", "deprecation/")


def test_approve_a_changed_definition_in_four_steps(visit: Visit) -> None:
    tom = visit("tom")
    tool = gateway.quarantined()
    page = tom.page
    tom.open("/admin/")
    tom.step(page.get_by_role("link", name="1 tool quarantined"))
    tom.step(page.get_by_role("link", name="walked__echo"))
    page.get_by_role("heading", name=re.compile(r"Change v1 .*v2")).wait_for()
    page.get_by_text("U+200B", exact=True).wait_for()
    tom.step(page.get_by_role("link", name="Approve v2"))
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="Reason").fill("Read the difference")
    for box in dialog.get_by_role("checkbox").all():
        box.check()  # looking at each flag is the work itself
    tom.step(dialog.get_by_role("button", name="Approve walked__echo"))
    page.get_by_text("walked__echo is approved: calls pass by v2.").wait_for()
    assert tom.steps <= 4
    tool.refresh_from_db()
    assert tool.state == DefinitionState.APPROVED
    assert not tom.complaints


def test_a_flag_that_was_not_ticked_keeps_the_dialog_open(visit: Visit) -> None:
    tom = visit("tom")
    tool = gateway.quarantined()
    page = tom.settled(f"{TOOLS}{tool.pk}/change/")
    page.get_by_role("link", name="Approve v2").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Approve walked__echo").click()
    dialog.get_by_text("Tick this once you have looked at it.").first.wait_for()
    assert not violations(page)
    assert Tool.objects.get(pk=tool.pk).state == DefinitionState.QUARANTINED


def test_the_form_follows_the_transport_and_shows_what_would_run(visit: Visit, settings: Any) -> None:
    settings.EXECUTABLE_ALLOWLIST = None
    mara = visit("mara")
    page = mara.settled(f"{SERVERS}add/")
    assert page.get_by_label("Address").is_visible()
    assert not page.get_by_label("Command").is_visible()
    page.get_by_text("Process (stdio)").click()
    assert not page.get_by_label("Address").is_visible()
    page.get_by_label("Command").fill(sys.executable)
    page.get_by_label("Arguments").fill(f"{TODO}\n--store\n/tmp/with a space")
    page.get_by_label("The exact command line").get_by_text("'/tmp/with a space'").wait_for()
    page.get_by_label("Name", exact=True).fill("local")
    page.get_by_role("button", name="Add server").click()
    page.get_by_role("heading", name="local").wait_for(timeout=30_000)
    server = Server.objects.get(name="local")
    assert server.args[1:] == ["--store", "/tmp/with a space"]
    assert not mara.complaints


def test_a_test_is_one_press_and_its_answer_stands_on_the_page(visit: Visit, upstreams: Peer) -> None:
    olga = visit("olga")
    server = gateway.add(upstreams)
    page = olga.settled(f"{SERVERS}{server.pk}/")
    page.get_by_role("button", name="Test now").click()
    said = page.get_by_text(re.compile(r"todo (answered|did not answer)")).inner_text()
    # How long it took is the machine's to say.
    assert re.search(r"todo answered in (< 1 ms|[\d.]+ m?s)", said)
    expect(page.locator(".gh-cell")).to_have_count(2)


@pytest.mark.parametrize(
    "options", [{}, {"viewport": NARROW, "color_scheme": "dark"}], ids=["light at 1280", "dark at 360"]
)
def test_axe_finds_nothing_and_nothing_scrolls_sideways(visit: Visit, options: dict[str, Any]) -> None:
    tom = visit("admin", **options)
    tool = gateway.quarantined()
    first = gateway.tool_of(tool.server, "count")
    paths = [SERVERS, f"{SERVERS}add/", f"{SERVERS}?q=nothing-like-it", TOOLS]
    paths += [f"{SERVERS}{tool.server_id}/{tab}" for tab in (*SERVER_TABS, *DIALOGS)]
    paths += [f"{TOOLS}{tool.pk}/{tab}" for tab in (*TOOL_TABS, *TOOL_DIALOGS)]
    paths += [f"{TOOLS}{first.pk}/change/", f"{TOOLS}bulk/approve/?id={first.pk}"]
    width = tom.page.viewport_size["width"]  # type: ignore[index]  # the fixture sets one
    found = []
    for path in paths:
        page = tom.settled(path)
        found += violations(page)
        if page.evaluate("document.documentElement.scrollWidth") != width:
            found.append(f"{path} scrolls sideways")
    assert not found, "\n".join(found)
    assert not tom.complaints


def test_a_cell_of_health_is_a_link_with_words(visit: Visit) -> None:
    olga = visit("olga")
    tool = gateway.quarantined()
    page = olga.settled(f"{SERVERS}{tool.server_id}/")
    page.get_by_role("link", name=re.compile("Unhealthy")).click()
    page.locator(".gh-chosen").wait_for()
    assert page.get_by_role("heading", level=1).inner_text().endswith("walked")
