"""The console as people see it: somebody signed in for each role, the demo's rows, and a real browser."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from allauth.account.internal.flows.login import record_authentication
from django.core.cache import cache
from django.http import HttpRequest
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, Page, Request
from pytest_django.live_server_helper import LiveServer

from nhi import demo
from nhi.models import Identity, User
from tests.console.gateway import changed as changed
from tests.console.gateway import todo as todo
from tests.console.gateway import upstreams as upstreams

BACKEND = "django.contrib.auth.backends.ModelBackend"
#: The demo's people by their role.
ROLES = {"admin": "superuser", "mara": "security-admin", "olga": "operator", "tom": "approver", "ada": "auditor"}
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 360, "height": 740}

SignedIn = Callable[[str], Client]


def enter(client: Client, username: str) -> None:
    """As somebody who has just signed in with their password."""
    user = User.objects.get(username=username)
    client.force_login(user, backend=BACKEND)
    request = HttpRequest()
    request.session = client.session
    record_authentication(request, user, method="password")
    request.session.save()


@pytest.fixture(autouse=True)
def _no_kept_counts() -> None:
    cache.clear()


@pytest.fixture
def seeded(db: None) -> None:
    demo.seed()


@pytest.fixture
def signed_in(seeded: None) -> SignedIn:
    def signed_in(username: str) -> Client:
        client = Client()
        enter(client, username)
        return client

    return signed_in


@pytest.fixture
def mara(signed_in: SignedIn) -> Client:
    return signed_in("mara")


def identity(name: str = "deploy-bot") -> Identity:
    return Identity.objects.get(name=name)


def hub(name: str = "deploy-bot", tab: str = "") -> str:
    return f"/admin/nhi/identity/{identity(name).pk}/{tab}"


#: Two frames after the letters are there, and whatever moves has come to rest.
DRAWN = """async () => {
  await document.fonts.ready;
  for (const frame of [1, 2]) await new Promise(requestAnimationFrame);
  const moving = document.getAnimations().filter((one) => Number.isFinite(one.effect.getComputedTiming().endTime));
  await Promise.allSettled(moving.map((one) => one.finished));
}"""


class Visitor:
    """A person at a browser; counts the steps they take, and keeps what the browser complained about."""

    def __init__(self, page: Page, base: str) -> None:
        self.page, self.base, self.steps = page, base, 0
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.under_way: set[Request] = set()
        page.on("console", lambda told: self._note(told.type, told.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._asked)
        for end in ("requestfinished", "requestfailed"):
            page.on(end, self._ended)

    def _note(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"} and "status of 4" not in text:
            self.complaints.append(text)

    def _asked(self, request: Request) -> None:
        self.requests.append(request.url)
        self.under_way.add(request)

    def _ended(self, request: Request) -> None:
        self.under_way.discard(request)

    def open(self, path: str) -> None:
        self.page.goto(self.base + path)

    def settled(self, path: str) -> Page:
        """The page with what its scripts ask for as it opens."""
        self.open(path)
        self.settle()
        return self.page

    def settle(self) -> None:
        """Where scripts run: nothing is under way any more, and what came of it is drawn.

        Playwright's "networkidle" says no more than that, after half a second without a request.
        """
        self.page.evaluate(DRAWN)
        while self.under_way:
            self.page.evaluate(DRAWN)
        self.page.evaluate(DRAWN)

    def step(self, what: Any) -> None:
        """A click or a committed choice; typing and scrolling are free."""
        what.click()
        self.steps += 1

    def find(self, text: str) -> None:
        """Opens the palette and types: the step is the choice that follows."""
        self.page.keyboard.press("Control+k")
        self.page.get_by_role("combobox", name="Find or do").fill(text)


Visit = Callable[..., Visitor]


@pytest.fixture
def visit(chromium: Browser, transactional_db: None, live_server: LiveServer) -> Iterator[Visit]:
    demo.seed()
    contexts: list[BrowserContext] = []

    def visit(username: str = "mara", **options: Any) -> Visitor:
        context = chromium.new_context(**{"viewport": WIDE, "color_scheme": "light", **options})
        contexts.append(context)
        context.set_default_timeout(10_000)
        client = Client()
        enter(client, username)
        context.add_cookies([{"name": "gatehouse", "value": client.cookies["gatehouse"].value, "url": live_server.url}])
        return Visitor(context.new_page(), live_server.url)

    yield visit
    for context in contexts:
        context.close()
