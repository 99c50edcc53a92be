"""Where there is little room: the menu shows where one is, and filters leave the page to the rows."""

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.console.conftest import NARROW, WIDE, Visit

pytestmark = [pytest.mark.browser, pytest.mark.capability("CON-06")]
RUNS = "/admin/supervisor/execution/?state=wrong&span=24h"
LOW, BETWEEN = {"width": 1280, "height": 400}, {"width": 768, "height": 900}


def test_a_long_menu_shows_where_one_is(visit: Visit) -> None:
    mara = visit(viewport=LOW)
    page = mara.settled("/admin/system/")
    current = page.get_by_role("navigation", name="Main").locator("[aria-current]")
    expect(current).to_contain_text("System")
    expect(current).to_be_in_viewport(ratio=1)
    assert page.evaluate("scrollY") == 0
    mara.settled("/admin/")
    expect(page.locator(".gh-brand")).to_be_in_viewport(ratio=1)


def test_so_does_the_menu_that_is_opened_over_the_page(visit: Visit) -> None:
    mara = visit(viewport={**NARROW, "height": 500})
    page = mara.settled("/admin/system/")
    page.get_by_role("button", name="Menu").click()
    expect(page.get_by_role("navigation", name="Main").locator("[aria-current]")).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize("room", [NARROW, BETWEEN], ids=["phone", "tablet"])
def test_filters_are_one_line_that_says_how_many_are_in_force(visit: Visit, room: dict[str, Any]) -> None:
    mara = visit(viewport=room)
    page = mara.settled(RUNS)
    heading, state = page.locator(".gh-filter-box > summary"), page.get_by_label("State", exact=True)
    expect(heading).to_contain_text("Filters 2 in force")
    expect(state).to_be_hidden()
    heading.click()
    expect(state).to_have_value("wrong")


def test_where_there_is_room_they_stand_open(visit: Visit) -> None:
    mara = visit(viewport=WIDE)
    page = mara.settled(RUNS)
    expect(page.get_by_label("State", exact=True)).to_be_visible()
    expect(page.locator(".gh-filter-box > summary")).to_be_hidden()
