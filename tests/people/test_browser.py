"""Signing in as a person does it: with a keyboard, a phone's code, a passkey, in light and dark, wide and narrow."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from playwright.sync_api import Browser, BrowserContext, Page, expect
from pytest_django.live_server_helper import LiveServer

from nhi.actors import SYSTEM
from nhi.models import AuditEvent, User
from nhi.people import people
from tests.console.conftest import NARROW, WIDE
from tests.people import totp
from tests.people.conftest import PASSWORD

pytestmark = [pytest.mark.capability("CON-01"), pytest.mark.browser]

AXE = (Path(__file__).resolve().parent.parent / "vendor" / "axe-core" / "axe.min.js").read_text()
RULES = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]},
    "resultTypes": ["violations"],
}
TOO_SMALL = """[...document.querySelectorAll("a, button, input:not([type=hidden])")]
    .filter(one => one.checkVisibility() && one.getBoundingClientRect().height < 24).map(one => one.outerHTML)"""
LOOKS = {"light": {"viewport": WIDE, "color_scheme": "light"}, "dark": {"viewport": NARROW, "color_scheme": "dark"}}
Visit = Callable[..., "Person"]


class Person:
    """Somebody at a browser, and what the browser complained about."""

    def __init__(self, page: Page, base: str) -> None:
        self.page, self.base = page, base
        self.complaints: list[str] = []
        page.on("console", lambda told: self._note(told.type, told.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._stays)

    def _note(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"} and "status of 4" not in text:
            self.complaints.append(text)

    def _stays(self, request: Any) -> None:
        if not request.url.startswith((self.base, "data:")):
            self.complaints.append(f"asked {request.url}")

    def open(self, path: str) -> None:
        self.page.goto(self.base + path)

    def sign_in(self, username: str = "mara", password: str = PASSWORD) -> None:
        self.open("/admin/login/")
        self.page.get_by_label("Name").fill(username)
        self.page.get_by_label("Password").fill(password)
        self.page.keyboard.press("Enter")

    def sign_out(self) -> None:
        self.open("/admin/logout/")
        self.page.get_by_role("main").get_by_role("button", name="Sign out").click()

    def look(self, name: str) -> None:
        """A plain page: nothing that axe finds, nothing wider than the screen; a picture when asked for."""
        self.fits(name)
        self.page.evaluate(AXE)
        found = self.page.evaluate("rules => axe.run(document, rules).then(found => found.violations)", RULES)
        said = [(one["id"], [node["html"] for node in one["nodes"]]) for one in found]
        assert not said, (name, said)
        assert not self.page.evaluate(TOO_SMALL), name

    def fits(self, name: str) -> None:
        # A click that leads on may still be on its way, and there is nothing to measure between two pages.
        self.page.wait_for_load_state()
        if place := os.environ.get("GATEHOUSE_SHOTS"):
            width = self.page.viewport_size["width"]
            self.page.screenshot(path=f"{place}/{name}-{width}.png", full_page=True)
        assert self.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), name
        assert self.page.locator("h1").count() == 1, name
        assert not self.complaints, name


@pytest.fixture
def visit(chromium: Browser, transactional_db: None, live_server: LiveServer) -> Iterator[Visit]:
    contexts: list[BrowserContext] = []
    people.create(actor=SYSTEM, username="mara", roles=["security-admin"], password=PASSWORD)

    def visit(**options: Any) -> Person:
        context = chromium.new_context(**{"viewport": WIDE, "color_scheme": "light", **options})
        contexts.append(context)
        context.set_default_timeout(10_000)
        return Person(context.new_page(), live_server.url)

    yield visit
    for context in contexts:
        context.close()


def session_of(person: Person) -> bool:
    answer = person.page.request.get(f"{person.base}/admin/session/")
    return answer.status == 200


@pytest.mark.parametrize("look", LOOKS)
def test_signing_in_with_a_phone(visit: Visit, look: str) -> None:
    mara = visit(**LOOKS[look])
    page = mara.page
    mara.open("/admin/login/")
    expect(page.get_by_label("Name")).to_be_focused()
    mara.look("sign-in")
    mara.sign_in(password="wrong")
    expect(page.get_by_role("alert").first).to_have_text("This name and password do not open the console.")
    expect(page.get_by_label("Password")).to_be_focused()
    mara.look("sign-in-refused")

    mara.sign_in()
    page.wait_for_url("**/admin/")
    mara.open("/admin/sign-in/")
    mara.fits("overview-empty")
    page.get_by_role("link", name="Set up an app").click()
    page.get_by_text("No camera?").click()
    secret = page.locator("code.secret").inner_text()
    expect(page.get_by_alt_text("QR code for the authenticator app")).to_be_visible()
    mara.look("app")
    page.get_by_label("Code").fill("000000")
    page.get_by_role("button", name="Set up").click()
    expect(page.get_by_role("alert")).to_contain_text("This code is wrong")
    mara.look("app-refused")
    page.get_by_label("Code").fill(totp.code(secret))
    page.get_by_role("button", name="Set up").click()
    expect(page.locator(".codes li")).to_have_count(10)
    mara.look("recovery-codes")
    page.get_by_role("link", name="I have kept them").click()
    mara.fits("overview")

    mara.sign_out()
    mara.sign_in()
    page.wait_for_url("**/authenticate/")
    expect(page.get_by_label("Code")).to_be_focused()
    mara.look("second-step")
    page.get_by_label("Code").fill("000000")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert").first).to_contain_text("This code is wrong")
    mara.look("second-step-refused")
    page.get_by_label("Code").fill(totp.code(secret, steps=1))
    page.keyboard.press("Enter")
    page.wait_for_url("**/admin/")
    assert AuditEvent.objects.filter(event="sign_in.succeeded").latest("at").details == {"with": ["password", "totp"]}


def test_signing_in_without_scripts(visit: Visit) -> None:
    mara = visit(java_script_enabled=False)
    mara.open("/admin/login/")
    assert mara.page.get_by_text("passkey").is_hidden()
    mara.sign_in()
    mara.page.wait_for_url("**/admin/")
    assert session_of(mara)


def with_authenticator(person: Person) -> None:
    """A phone that says yes to everything, plugged into the browser."""
    session = person.page.context.new_cdp_session(person.page)
    session.send("WebAuthn.enable")
    phone = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": True,
    }
    session.send("WebAuthn.addVirtualAuthenticator", {"options": phone})


def test_signing_in_with_a_passkey(visit: Visit) -> None:
    mara = visit()
    page = mara.page
    with_authenticator(mara)
    mara.sign_in()
    page.wait_for_url("**/admin/")
    mara.open("/admin/sign-in/webauthn/add/")
    mara.look("passkey")
    page.get_by_label("What you call it").fill("Phone")
    page.get_by_role("button", name="Add passkey").click()
    page.wait_for_url("**/recovery-codes/")
    mara.open("/admin/sign-in/")
    expect(page.get_by_text("Signs you in without a password.")).to_be_visible()
    mara.fits("overview-passkey")

    # As the second step after a password.
    mara.sign_out()
    mara.sign_in()
    page.get_by_role("button", name="Use a passkey instead").click()
    page.wait_for_url("**/admin/")
    assert AuditEvent.objects.filter(event="sign_in.succeeded").latest("at").details == {
        "with": ["password", "passkey"]
    }

    # And alone.
    mara.open("/admin/logout/")
    mara.look("sign-out")
    mara.sign_out()
    mara.open("/admin/login/?next=/admin/tokens/")
    page.get_by_role("button", name="Sign in with a passkey").click()
    page.wait_for_url(f"{mara.base}/admin/tokens/")
    assert AuditEvent.objects.filter(event="sign_in.succeeded").latest("at").details == {"with": ["passkey"]}
    assert not mara.complaints


def test_a_passkey_opens_no_console_for_who_has_none(visit: Visit) -> None:
    mara = visit()
    with_authenticator(mara)
    mara.sign_in()
    mara.page.wait_for_url("**/admin/")
    mara.open("/admin/sign-in/webauthn/add/")
    mara.page.get_by_role("button", name="Add passkey").click()
    mara.page.wait_for_url("**/recovery-codes/")
    User.objects.update(is_active=False)
    mara.open("/admin/login/")
    mara.page.get_by_role("button", name="Sign in with a passkey").click()
    expect(mara.page.get_by_role("heading", level=1)).to_have_text("No console for you yet")
    assert not session_of(mara)


@pytest.mark.parametrize("look", LOOKS)
def test_the_other_pages_read_well(visit: Visit, look: str) -> None:
    mara = visit(**LOOKS[look])
    page = mara.page
    mara.open("/nothing/here")
    mara.look("missing")
    mara.sign_in()
    page.wait_for_url("**/admin/")
    mara.open("/admin/password_change/")
    mara.look("password")
    page.get_by_role("button", name="Change password").click()
    expect(page.get_by_text("This field is required.").first).to_be_visible()
    mara.look("password-refused")
    mara.open("/admin/sign-in/confirm/")
    mara.look("confirm")
    mara.open("/admin/tokens/")
    mara.fits("tokens-empty")
    page.get_by_role("link", name="Issue token").click()
    page.get_by_role("dialog").get_by_role("button", name="Issue token").click()
    expect(page.locator("#gh-token")).to_contain_text("nhi_usr_")
    mara.fits("token")
    mara.open("/admin/tokens/")
    mara.fits("tokens")
    mara.open("/admin/profile/")
    mara.fits("profile")
    page.context.clear_cookies()
    for _ in range(6):
        mara.sign_in(password="wrong")
        expect(page.get_by_role("alert").first).to_be_visible()
    expect(page.get_by_role("alert").first).to_contain_text("Too many failed sign-ins")
    mara.look("locked")


def test_a_stale_page_says_so(visit: Visit) -> None:
    mara = visit()
    mara.open("/admin/login/")
    mara.page.context.clear_cookies()
    mara.page.get_by_label("Name").fill("mara")
    mara.page.get_by_label("Password").fill(PASSWORD)
    mara.page.keyboard.press("Enter")
    expect(mara.page.get_by_role("heading", level=1)).to_have_text("This page has gone stale")
    assert re.search(r"Request id [0-9a-f-]{36}", mara.page.get_by_role("main").inner_text())
    mara.look("stale")


def test_required_leads_to_the_second_factor(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(django_settings, "REQUIRE_MFA", True)
    mara = visit(**LOOKS["dark"])
    mara.sign_in()
    expect(mara.page.get_by_role("alert").first).to_contain_text("Everyone here signs in with a second factor")
    mara.look("required")


def test_the_session_asks_before_it_ends(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    mara = visit()
    page = mara.page
    page.clock.install()
    mara.sign_in()
    page.wait_for_url("**/admin/")
    mara.open("/admin/profile/")
    page.get_by_label("Time zone").fill("Europe/Vie")
    # The server's side of it: nearly half an hour has passed.
    monkeypatch.setattr(django_settings, "SESSION_IDLE_SECONDS", 100)
    page.clock.fast_forward("28:01")
    stay = page.get_by_role("button", name="Stay signed in")
    expect(stay).to_be_focused()
    mara.fits("still-there")
    monkeypatch.setattr(django_settings, "SESSION_IDLE_SECONDS", 1800)
    with page.expect_response(lambda answer: answer.request.method == "POST") as put_off:
        page.keyboard.press("Enter")
    assert put_off.value.status == 200
    expect(stay).to_be_hidden()
    expect(page.get_by_label("Time zone")).to_have_value("Europe/Vie")


def test_a_session_that_has_ended_keeps_what_was_typed(visit: Visit) -> None:
    mara = visit()
    page = mara.page
    page.clock.install()
    mara.sign_in()
    page.wait_for_url("**/admin/")
    mara.open("/admin/profile/")
    page.get_by_label("Time zone").fill("Europe/Vie")
    page.context.clear_cookies()
    page.clock.fast_forward("28:01")
    expect(page.get_by_text("You are signed out. Sign in again in another tab")).to_be_visible()
    other = Person(page.context.new_page(), mara.base)
    other.sign_in()
    other.page.wait_for_url("**/admin/")
    with page.expect_response("**/admin/session/"):
        page.evaluate("window.dispatchEvent(new Event('focus'))")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.get_by_label("Time zone").fill("Europe/Vienna")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved.")).to_be_visible()
