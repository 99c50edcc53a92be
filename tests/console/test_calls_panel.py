"""A row of the log of calls, opened beside the list."""

from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from playwright.sync_api import Page, expect

from nhi.models import Identity, User
from tests.console.axe import violations
from tests.console.call_log import LIST, PART, link_of
from tests.console.calling import call, denied, registered
from tests.console.conftest import NARROW, SignedIn, Visit

pytestmark = pytest.mark.capability("AUD-02", "CON-05", "CON-06")


def part_of(row: Any) -> str:
    return f"{LIST}{row.pk}/part/"


def panel_of(page: Page) -> Any:
    return page.locator("[data-panel]")


def test_the_panel_is_a_part_with_what_decided_and_the_way_to_the_page(mara: Client) -> None:
    row = denied()
    answer = mara.get(part_of(row), headers=PART)
    said = answer.content.decode()
    assert answer.headers["X-Console-Part"] == "1"
    assert "<html" not in said
    assert f'href="{LIST}{row.pk}/"' in said
    assert "A grant or a role allows it" in said
    assert "deploy-bot has no grant for it." in said
    assert "What would make it pass" in said
    assert "<html" in mara.get(part_of(row)).content.decode()


def test_the_panel_shows_words_of_others_as_such(mara: Client) -> None:
    row = call(tool="list\u202eecalper", status="error", end={"reason": "upstream", "error_message": "<b>x</b>"})
    said = mara.get(part_of(row), headers=PART).content.decode()
    assert "U+202E" in said
    assert "list\u202e" not in said
    assert "&lt;b&gt;x&lt;/b&gt;" in said


def test_the_panel_is_for_those_who_may_open_the_page(seeded: None, signed_in: SignedIn) -> None:
    Identity.objects.update(backup_owner=None)
    own, other = call("writer", "jira", "search"), call()
    User.objects.get(username="olga").groups.clear()
    olga = signed_in("olga")
    assert olga.get(part_of(own), headers=PART).status_code == 200
    assert olga.get(part_of(other), headers=PART).status_code == 404


def test_the_panel_asks_less_than_the_page(mara: Client) -> None:
    registered()
    row = denied()
    cache.clear()
    with CaptureQueriesContext(connection) as seen:
        mara.get(part_of(row), headers=PART)
    assert len(seen) <= 18, [one["sql"][:100] for one in seen]


@pytest.mark.browser
def test_a_row_opens_beside_the_list_and_escape_gives_the_focus_back(visit: Visit) -> None:
    mara = visit("mara")
    row, newer = denied(ago=30), call(ago=10)
    page = mara.settled(LIST)
    link_of(page, row).click()
    heading = panel_of(page).get_by_role("heading", name="create_issue on github by deploy-bot")
    expect(heading).to_be_focused()
    expect(link_of(page, row)).to_contain_text(f"{row.timestamp:%H:%M:%S}")
    expect(panel_of(page)).to_contain_text("deploy-bot has no grant for it.")
    assert page.url.endswith(f"#call={row.pk}")
    page.keyboard.press("k")
    expect(link_of(page, newer)).to_have_attribute("aria-current", "true")
    expect(panel_of(page)).to_contain_text("Every check passed")
    page.keyboard.press("j")
    expect(panel_of(page)).to_contain_text("deploy-bot has no grant for it.")
    page.keyboard.press("Escape")
    expect(panel_of(page)).to_be_hidden()
    expect(link_of(page, row)).to_be_focused()
    assert "#" not in page.url
    assert not mara.complaints


@pytest.mark.browser
def test_enter_opens_the_panel_and_enter_again_the_page(visit: Visit) -> None:
    mara = visit("mara")
    row = denied()
    page = mara.settled(LIST)
    page.get_by_role("region", name="Calls", exact=True).focus()
    page.keyboard.press("j")
    expect(link_of(page, row)).to_be_focused()
    page.keyboard.press("Enter")
    expect(panel_of(page).locator("[data-panel-title]")).to_be_focused()
    assert page.url.partition("#")[0] == mara.base + LIST
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{LIST}{row.pk}/")
    page.go_back()
    expect(panel_of(page)).to_contain_text("deploy-bot has no grant for it.")
    panel_of(page).get_by_role("link", name="Open the page").click()
    page.wait_for_url(f"**{LIST}{row.pk}/")
    assert not mara.complaints


@pytest.mark.browser
@pytest.mark.parametrize("options", [{"viewport": NARROW}, {"java_script_enabled": False}], ids=["narrow", "no script"])
def test_without_room_or_script_a_row_leads_to_its_page(visit: Visit, options: dict[str, Any]) -> None:
    mara = visit("mara", **options)
    row = denied()
    mara.open(LIST)
    link_of(mara.page, row).click()
    mara.page.wait_for_url(f"**{LIST}{row.pk}/")


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_open_panel_is_accessible_and_fits(visit: Visit, scheme: str) -> None:
    mara = visit("mara", color_scheme=scheme)
    row = denied()
    call(end={"duration": 40.0, "details": {"decide_ms": 1.0, "upstream_ms": 30.0}})
    page = mara.settled(LIST)
    link_of(page, row).click()
    expect(panel_of(page)).to_be_visible()
    assert not violations(page)
    for width in (1280, 1200):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth === innerWidth"), width
    assert not mara.complaints
