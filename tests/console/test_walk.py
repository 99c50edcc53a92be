"""The walk of every URL by every role: nobody breaks a page, a look changes nothing, an auditor changes nothing."""

import re
from collections import Counter
from html import unescape
from typing import Any

import pytest
from django.conf import settings
from django.contrib import admin
from django.test import Client

from nhi.actors import SYSTEM
from nhi.choices import Kind
from nhi.credentials import credentials
from nhi.identities import identities
from nhi.models import User
from nhi.people import people
from tests.console.conftest import enter
from tests.console.walk import Place, Stage, changed, snapshot

pytestmark = [pytest.mark.capability("CON-01", "CON-05", "AUD-01"), pytest.mark.django_db]

CONSOLE = {"admin": "superuser", "mara": "security admin", "tom": "approver", "olga": "operator", "ada": "auditor"}
#: One's own session and factors: open to who is not in yet, and to an auditor's POST.
OWN = tuple(
    f"/admin/{page}/" for page in ("login", "logout", "session", "sign-in", "sso", "password_change", "profile")
)
#: What a form might send. Were a guard missing, something would change.
BODY = {
    "reason": "Because", "seen": "", "do": "save", "format": "csv", "ends": "30", "days": "30", "overlap": "0",
    "name": "another", "kind": "agent", "tags": "walked", "roles": "auditor", "username": "another", "level": "use",
    "expires_in_days": "30", "time_zone": "Europe/Vienna", "what": "pattern", "pattern": "github.*",
}  # fmt: skip
UNSAFE = ("post", "put", "patch", "delete")
LINK = re.compile(r'href="(/admin/[^"#]*|\?[^"#]*)"')


@pytest.fixture
def stage() -> Stage:
    return Stage()


def browser(name: str) -> Client:
    client = Client()
    enter(client, name)
    return client


def outsider(name: str) -> Client:
    """Someone who is known and has no console."""
    people.create(actor=SYSTEM, username=name)
    return browser(name)


def owner_without_role(stage: Stage) -> Client:
    client = outsider("dev")
    identities.change(actor=SYSTEM, identity=stage.bot, owner=User.objects.get(username="dev"))
    return client


def auditing_service() -> Client:
    """A service account that holds the auditor's role, by its credential."""
    owner = User.objects.get(username="mara")
    account = identities.create(actor=SYSTEM, kind=Kind.SERVICE_ACCOUNT, name="evidence", owner=owner)
    identities.set_console_roles(actor=SYSTEM, identity=account, roles=["auditor"])
    token = credentials.issue(actor=SYSTEM, holder=account).token
    return Client(headers={"Authorization": f"Bearer {token}"})


def look(client: Client, place: Place) -> Any:
    answer = client.get(place.path)
    assert answer.status_code < 500, f"{place.path}: {answer.status_code}"
    return answer


@pytest.mark.parametrize("name", CONSOLE, ids=CONSOLE.values())
def test_a_look_breaks_nothing_and_changes_nothing(stage: Stage, name: str) -> None:
    client = browser(name)
    before = snapshot()
    answers = [(place, look(client, place)) for place in stage.places("admin/")]
    assert not changed(before)
    shown = [place.path for place, answer in answers if answer.status_code == 200]
    assert len(shown) > 30


@pytest.mark.parametrize("who", ["anonymous", "stranger", "owner without a role"])
def test_nobody_else_sees_a_page(stage: Stage, who: str) -> None:
    client = {
        "anonymous": Client,
        "stranger": lambda: outsider("stranger"),
        "owner without a role": lambda: owner_without_role(stage),
    }[who]()
    before = snapshot()
    for place in stage.places("admin/"):
        answer = look(client, place)
        if not place.path.startswith(OWN):
            assert answer.status_code in (302, 403, 404), f"{place.path}: {answer.status_code}"
            if answer.status_code == 302:
                assert answer.headers["Location"].startswith(settings.LOGIN_URL), place.path
    assert not changed(before)


def test_titles_are_unique_and_each_page_has_one_heading(stage: Stage) -> None:
    client = browser("admin")
    titles: Counter[str] = Counter()
    for place in stage.places("admin/"):
        answer = client.get(place.path)
        page = answer.content.decode() if answer.headers.get("Content-Type", "").startswith("text/html") else ""
        part = place.name.endswith("_preview")  # of the page that asks for it
        if answer.status_code == 200 and "<html" in page and not part:
            assert page.count("<h1") == 1, place.path
            titles[re.search(r"<title>\s*(.*?)\s*</title>", page, re.DOTALL)[1]] += 1
    assert len(titles) > 60
    assert {title for title, times in titles.items() if times > 1} == set()


@pytest.mark.parametrize("name", CONSOLE, ids=CONSOLE.values())
def test_every_link_that_is_drawn_may_be_followed_and_changes_nothing(stage: Stage, name: str) -> None:
    """Filters, orders, exports, tabs, dialogs: whatever a page of theirs leads to."""
    client = browser(name)
    before = snapshot()
    seen, waiting = {"/admin/?"}, ["/admin/"]
    while waiting:
        path = waiting.pop()
        answer = client.get(path)
        assert answer.status_code in (200, 302), f"{path}: {answer.status_code}"
        for href in _links(answer, path):
            if _kind(href) not in seen:
                seen.add(_kind(href))
                waiting.append(href)
    assert len(seen) > 20
    assert not changed(before)


def test_an_auditor_changes_nothing_at_the_console(stage: Stage) -> None:
    client = browser("ada")
    before = snapshot()
    for place in stage.places("admin/"):
        if place.path.startswith(OWN):
            continue
        for method in UNSAFE:
            body = {"data": BODY} if method == "post" else {}
            answer = getattr(client, method)(place.path, **body)
            assert answer.status_code == 403, f"{method} {place.path}: {answer.status_code}"
        answer = client.post(place.path, BODY, headers={"X-Console-Part": "1"})
        assert answer.status_code == 403, f"part {place.path}: {answer.status_code}"
    assert not changed(before)


@pytest.mark.parametrize("by", ["session", "token"])
def test_an_auditor_changes_nothing_over_rest(stage: Stage, by: str) -> None:
    client = browser("ada") if by == "session" else auditing_service()
    before = snapshot()
    refused = Counter(
        method
        for place in stage.places("api/nhi/")
        if "/decisions/" not in place.path
        for method in UNSAFE
        if _refused(client, method, place)
    )
    assert refused["post"] > 20
    assert not changed(before)


def _refused(client: Client, method: str, place: Place) -> bool:
    """Whether the verb is there, and refused. One that nobody has is refused to everyone."""
    answer = getattr(client, method)(place.path, BODY, content_type="application/json")
    assert answer.status_code in (403, 404, 405), f"{method} {place.path}: {answer.status_code}"
    return answer.status_code == 403


def test_the_walk_sees_a_change(stage: Stage) -> None:
    client = browser("mara")
    before = snapshot()
    stop = f"/admin/nhi/identity/{stage.bot.pk}/stop/"
    page = client.get(stop).content.decode()
    seen = re.search(r'name="seen" value="([^"]*)"', page)[1]
    assert client.post(stop, {**BODY, "seen": seen}).status_code == 200
    assert {"nhi_identity", "nhi_audit_event"} <= changed(before)


def test_only_pages_of_ours_are_in_the_console() -> None:
    assert {model._meta.app_label for model in admin.site._registry} == {"nhi", "mcp", "supervisor", "a2a"}


def _links(answer: Any, path: str) -> list[str]:
    if not answer.headers.get("Content-Type", "").startswith("text/html"):
        return []
    return [_absolute(unescape(href), path) for href in LINK.findall(answer.content.decode())]


def _absolute(href: str, path: str) -> str:
    return path.partition("?")[0] + href if href.startswith("?") else href


def _kind(href: str) -> str:
    """Addresses that differ by their object alone lead to one view."""
    path, _, query = href.partition("?")
    names = ",".join(sorted(part.partition("=")[0] for part in query.split("&")))
    return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "id", path) + "?" + names
