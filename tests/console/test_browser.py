"""What only a browser shows: nothing from elsewhere, the policy kept, the theme, the keys, times that move on."""

import re

import pytest
from playwright.sync_api import expect

from nhi.models import User
from tests.console.conftest import NARROW, Visit, hub

pytestmark = [pytest.mark.browser, pytest.mark.capability("CON-06")]


def test_no_request_leaves_the_host_and_nothing_breaks_the_policy(visit: Visit) -> None:
    mara = visit()
    for path in ("/admin/", "/admin/nhi/identity/", hub(), hub(tab="credentials/"), hub(tab="connect/")):
        mara.settled(path)
    assert [url for url in mara.requests if not url.startswith((mara.base, "data:"))] == []
    assert mara.complaints == []


def test_the_policy_allows_no_inline_script_and_no_inline_style(visit: Visit) -> None:
    mara = visit()
    answer = mara.page.goto(f"{mara.base}/admin/")
    assert answer
    assert "unsafe" not in answer.headers["content-security-policy"]
    mara.page.evaluate(
        "() => { const script = document.createElement('script'); script.textContent = 'window.broken = 1';"
        " document.body.append(script); }"
    )
    assert mara.page.evaluate("window.broken") is None
    assert "Content Security Policy" in mara.complaints[0]


def test_the_theme_is_kept_and_set_before_the_first_paint(visit: Visit) -> None:
    mara = visit()
    page = mara.page
    mara.open("/admin/")
    assert not page.evaluate("document.documentElement.classList.contains('dark')")
    page.get_by_label("Theme").click()
    page.get_by_role("button", name="Dark").click()
    assert page.evaluate("document.documentElement.classList.contains('dark')")
    mara.open("/admin/nhi/identity/")
    assert page.evaluate("document.documentElement.classList.contains('dark')")
    page.keyboard.press("Control+e")
    expect(page.locator("html")).not_to_have_class(re.compile("dark"))


def test_keys_work_while_the_list_has_the_focus_and_not_elsewhere(visit: Visit) -> None:
    mara = visit()
    page = mara.page
    mara.open("/admin/nhi/identity/?kind=agent")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement === document.body")
    page.get_by_role("region", name="Identities").focus()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    expect(page.locator("[data-open]").first).to_be_focused()
    page.keyboard.press("x")
    expect(page.locator("[data-tick]").first).to_be_checked()
    expect(page.get_by_text("1 ticked")).to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Search identities")).to_be_focused()
    page.get_by_role("region", name="Identities").focus()
    page.keyboard.press("g")
    page.keyboard.press("h")
    page.wait_for_url("**/admin/")


def test_keys_can_be_switched_off(visit: Visit) -> None:
    User.objects.filter(username="mara").update(single_key_shortcuts=False)
    mara = visit()
    mara.open("/admin/nhi/identity/")
    region = mara.page.get_by_role("region", name="Identities")
    region.focus()
    mara.page.keyboard.press("j")
    expect(region).to_be_focused()


def test_ticked_rows_open_their_dialog_with_counts(visit: Visit) -> None:
    mara = visit()
    page = mara.page
    mara.open("/admin/nhi/identity/?kind=agent")
    page.get_by_label("Tick deploy-bot").check()
    page.get_by_label("Tick triage-bot").check()
    page.get_by_role("button", name="Suspend").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading", name="Suspend 2 identities")).to_be_visible()
    dialog.get_by_role("button", name="Suspend 2 identities").click()
    expect(dialog.get_by_role("heading", name="Suspend: 2 of 2 done")).to_be_visible()


def test_a_dialog_that_is_not_answered_says_so_and_keeps_what_was_typed(visit: Visit) -> None:
    mara = visit()
    page = mara.page
    mara.open(hub())
    page.get_by_role("link", name="Stop now").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="Reason").fill("Typed by hand")
    page.context.set_offline(True)
    dialog.get_by_role("button", name="Suspend deploy-bot").click()
    expect(dialog.get_by_role("alert")).to_contain_text("did not answer")
    expect(dialog.get_by_role("textbox", name="Reason")).to_have_value("Typed by hand")
    page.context.set_offline(False)
    dialog.get_by_role("button", name="Suspend deploy-bot").click()
    expect(page.get_by_role("heading", name="deploy-bot is stopped")).to_be_visible()


def test_a_dialog_leads_to_signing_in_when_the_session_is_over(visit: Visit) -> None:
    mara = visit()
    page = mara.page
    mara.open(hub())
    page.context.clear_cookies()
    page.get_by_role("link", name="Stop now").click()
    page.wait_for_url("**/admin/login/**")


def test_times_move_on_without_a_reload(visit: Visit) -> None:
    mara = visit()
    page = mara.page
    page.clock.install()
    mara.open(hub())
    moment = page.locator("time[data-when]").first
    before = moment.inner_text()
    page.clock.run_for(10 * 60 * 1000)
    assert moment.inner_text() != before
    assert "min ago" in moment.inner_text()


def test_the_menu_of_a_narrow_screen_opens_and_closes_by_keyboard(visit: Visit) -> None:
    mara = visit(viewport=NARROW)
    page = mara.page
    mara.open("/admin/")
    menu = page.get_by_role("button", name="Menu")
    expect(page.get_by_role("link", name="All identities")).to_be_hidden()
    menu.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="All identities")).to_be_visible()
    expect(menu).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Escape")
    expect(page.get_by_role("link", name="All identities")).to_be_hidden()
    expect(menu).to_be_focused()


def test_everything_works_without_scripts(visit: Visit) -> None:
    mara = visit(java_script_enabled=False)
    page = mara.page
    mara.open(hub("triage-bot"))
    page.get_by_role("link", name="Stop now").click()
    page.get_by_role("textbox", name="Reason").fill("Leaked token")
    page.get_by_role("button", name="Suspend triage-bot").click()
    expect(page.get_by_role("heading", name="triage-bot is stopped")).to_be_visible()
    page.get_by_role("link", name="Done").click()
    expect(page.locator("main .gh-badge").first).to_contain_text("Suspended")


@pytest.mark.capability("CON-05")
def test_what_was_refused_is_forgotten_once_another_way_is_chosen(visit: Visit) -> None:
    mara = visit()
    page = mara.page
    mara.open(hub(tab="give/"))
    page.get_by_role("combobox", name="Pattern").fill("nothing.*")
    page.get_by_role("button", name="Give access").click()
    said = page.get_by_text("No tool matches this.").filter(visible=True)
    page.locator(".gh-field--wrong input:focus").wait_for()
    mara.settle()
    assert said.count() == 1
    page.get_by_text("Single tools").click()
    page.get_by_text("A pattern", exact=True).click()
    assert not page.locator(".gh-field--wrong").count()
