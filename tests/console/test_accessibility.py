"""Every page of the console for everyone: axe without exceptions, and what axe does not see."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from tests.console.axe import violations
from tests.console.conftest import NARROW, ROLES, Visit, Visitor, hub

pytestmark = [pytest.mark.browser, pytest.mark.capability("CON-06")]
TABS = ("", "access/", "credentials/", "connect/", "changes/")
DIALOGS = ("stop/", "give/", "copy-access/", "archive/", "credentials/issue/")


def addresses(visitor: Visitor) -> list[str]:
    """Every page of the sidebar, and the parts of one hub."""
    visitor.open("/admin/")
    shown = visitor.page.locator("#gh-nav a").evaluate_all("links => links.map(link => link.getAttribute('href'))")
    hubs = [hub(tab=tab) for tab in TABS] + ["/admin/nhi/identity/add/", hub(tab="change/"), "/admin/nhi/nothing/"]
    return [*dict.fromkeys(shown), *hubs]


@pytest.mark.parametrize(
    "options",
    [{}, {"viewport": NARROW, "color_scheme": "dark"}],
    ids=["light at 1280", "dark at 360"],
)
def test_axe_finds_nothing_on_any_page(visit: Visit, options: dict[str, object]) -> None:
    mara = visit("mara", **options)
    found = [line for path in addresses(mara) for line in violations(mara.settled(path))]
    assert not found, "\n".join(found)
    assert not mara.complaints


def open_dialog(page: Page) -> None:
    page.get_by_role("link", name="Stop now").click()
    page.get_by_role("dialog").get_by_role("textbox", name="Reason").wait_for()


def open_wrong_dialog(page: Page) -> None:
    page.get_by_role("link", name="Give access").click()
    page.get_by_role("dialog").get_by_role("button", name="Give access").click()
    page.locator(".gh-field--wrong input:focus").wait_for()


def open_menu(page: Page) -> None:
    page.locator(".gh-menu--btn summary").click()


def open_palette(page: Page) -> None:
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("stop")
    page.get_by_role("option").first.wait_for()


def open_keys(page: Page) -> None:
    page.get_by_text("mara", exact=True).first.click()
    page.get_by_role("button", name="Keys").click()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("reach", [open_dialog, open_wrong_dialog, open_menu, open_palette, open_keys])
def test_axe_finds_nothing_in_what_opens(visit: Visit, reach: Callable[[Page], None], scheme: str) -> None:
    mara = visit("mara", color_scheme=scheme)
    page = mara.settled(hub())
    reach(page)
    assert not violations(page)


@pytest.mark.parametrize("dialog", DIALOGS)
def test_a_dialog_is_a_page_of_its_own_too(visit: Visit, dialog: str) -> None:
    mara = visit("mara", java_script_enabled=True, viewport=NARROW)
    assert not violations(mara.settled(hub(tab=dialog)))


@pytest.mark.parametrize("username", ROLES)
def test_axe_finds_nothing_for_any_role(visit: Visit, username: str) -> None:
    somebody = visit(username)
    for path in ("/admin/", "/admin/nhi/identity/", "/admin/nhi/identity/?state=archived", hub()):
        assert not violations(somebody.settled(path))


def test_nothing_scrolls_sideways_at_360_and_every_page_has_one_heading_and_a_title_of_its_own(visit: Visit) -> None:
    mara = visit("mara", viewport=NARROW)
    titles: dict[str, str] = {}
    for path in addresses(mara):
        page = mara.settled(path)
        assert page.evaluate("document.documentElement.scrollWidth") == 360, path
        assert page.locator("h1").count() == 1, path
        titles.setdefault(page.title(), path)
    assert len(titles) == len(addresses(mara))


SPACED = """const sheet = [...document.styleSheets].find(one => one.href.endsWith("console.css"));
sheet.insertRule("* { line-height: 1.5 !important; letter-spacing: .12em !important; word-spacing: .16em !important; }",
sheet.cssRules.length);"""


def test_a_zoom_of_400_percent_and_wide_spacing_lose_nothing(visit: Visit) -> None:
    mara = visit("mara", viewport={"width": 320, "height": 640})
    for path in ("/admin/", "/admin/nhi/identity/", hub(), hub(tab="access/"), hub(tab="give/")):
        page = mara.settled(path)
        assert page.evaluate("document.documentElement.scrollWidth") == 320, path
        page.evaluate(SPACED)
        assert page.evaluate("document.documentElement.scrollWidth") == 320, path
        cut = page.locator("main .gh-btn:visible, main .gh-badge:visible").evaluate_all(
            "all => all.filter(one => one.scrollWidth > one.clientWidth + 1).map(one => one.textContent)"
        )
        assert not cut, path


def test_targets_are_large_enough(visit: Visit) -> None:
    mara = visit("mara")
    page = mara.settled(hub())
    small = page.locator("button:visible, summary:visible, .gh-btn:visible").evaluate_all(
        "all => all.map(one => [one.getBoundingClientRect(), one.outerHTML])"
        ".filter(([box]) => box.height < 24 || box.width < 24).map(([, html]) => html)"
    )
    assert not small
    open_dialog(page)
    box = page.get_by_role("button", name="Suspend deploy-bot").bounding_box()
    assert box
    assert box["height"] >= 44


def test_a_dialog_takes_the_focus_keeps_it_and_gives_it_back(visit: Visit) -> None:
    mara = visit("mara")
    page = mara.settled(hub())
    page.get_by_role("link", name="Stop now").focus()
    page.keyboard.press("Enter")
    page.get_by_role("dialog").get_by_role("textbox", name="Reason").wait_for()
    inside = "[...document.querySelectorAll('#gh-dialog *'), document.body].includes(document.activeElement)"
    for _ in range(12):
        assert page.evaluate(inside)
        page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.textContent.includes('Stop now')")


def test_everything_clickable_can_be_reached_and_shows_where_one_is(visit: Visit) -> None:
    mara = visit("mara")
    page = mara.settled("/admin/nhi/identity/")
    for _ in range(40):
        page.keyboard.press("Tab")
        name, ring = page.evaluate(
            "() => { const at = document.activeElement; const style = getComputedStyle(at);"
            " return [at.ariaLabel || at.textContent.trim() || at.labels?.[0]?.textContent || at.value || at.title,"
            " parseFloat(style.outlineWidth)]; }"
        )
        assert name
        if page.evaluate("document.activeElement !== document.body"):
            assert ring >= 2
    dead = page.locator("[onclick], span[x-on\\:click], div[x-on\\:click], a:not([href])").count()
    assert dead == 0


def test_forced_colours_and_reduced_motion_lose_nothing(visit: Visit) -> None:
    mara = visit("mara", forced_colors="active", reduced_motion="reduce")
    page = mara.settled(hub())
    assert not violations(page)
    badge = page.locator(".gh-badge").first
    assert badge.evaluate("one => getComputedStyle(one).borderTopWidth") == "1px"
    assert badge.locator(".gh-icon").is_visible()
    moving = page.locator(".gh-btn").first.evaluate("one => getComputedStyle(one).transitionDuration")
    assert moving in {"0s", ""}
