"""Times in the person's zone, text from outside made harmless, the same verb by API."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.http import QueryDict
from django.template import Context, Template
from django.test import Client
from django.utils import timezone

from common.console import times
from common.templatetags.console import by_api, outside, when, with_query
from nhi.models import Identity, User
from tests.console.conftest import SignedIn, hub

NOW = datetime(2026, 11, 18, 14, 2, 11, 482000, tzinfo=UTC)


@pytest.mark.capability("CON-06")
@pytest.mark.parametrize(
    ("ahead", "said"),
    [
        (timedelta(seconds=2), "now"),
        (timedelta(seconds=-40), "40 s ago"),
        (timedelta(minutes=-6), "6 min ago"),
        (timedelta(hours=5), "in 5 h"),
        (timedelta(days=6), "in 6 d"),
        (timedelta(days=-400), "400 d ago"),
    ],
)
def test_relative_words(ahead: timedelta, said: str) -> None:
    assert times.relative(NOW + ahead, NOW) == said


@pytest.mark.capability("CON-06")
def test_a_moment_is_written_for_people_in_their_zone_and_for_machines_in_utc() -> None:
    with timezone.override(ZoneInfo("Europe/Vienna")):
        html = when(NOW, "log")
        ends = when(NOW, "both")
    assert 'datetime="2026-11-18T14:02:11Z"' in html
    assert "18 Nov 2026, 15:02:11.482 CET" in html
    assert "18 Nov" in ends
    assert "15:02" in ends


@pytest.mark.capability("CON-06")
@pytest.mark.parametrize(
    ("own", "browser", "used"),
    [
        ("", "", "UTC"),
        ("", "Asia/Tokyo", "Asia/Tokyo"),
        ("Europe/Vienna", "Asia/Tokyo", "Europe/Vienna"),
        ("", "../etc/passwd", "UTC"),
    ],
)
def test_pages_use_the_persons_zone_else_the_browsers(signed_in: SignedIn, own: str, browser: str, used: str) -> None:
    client = signed_in("mara")
    User.objects.filter(username="mara").update(time_zone=own)
    client.cookies["zone"] = browser
    assert f"Times are in {used}." in client.get("/admin/").content.decode()


@pytest.mark.capability("CON-05")
def test_text_from_outside_is_escaped_capped_and_shows_its_hidden_marks() -> None:
    said = outside("<img src=x onerror=alert(1)>\u202eevil\u200b" + "a" * 3000)
    assert "<img" not in said
    assert "&lt;img" in said
    assert ">U+202E<" in said
    assert ">U+200B<" in said
    assert all(f">U+{ord(one):04X}<" in outside(one) for one in "\u3164\u2800\U000e0041")
    assert "(cut, 1034 more)" in said


@pytest.mark.capability("CON-05")
def test_what_a_person_typed_stays_text_on_every_page(mara: Client) -> None:
    evil = '"><svg/onload=alert(1)>{{ settings }}'
    Identity.objects.filter(name="deploy-bot").update(
        purpose=evil, description=evil, team=evil, environment=evil, state_reason=evil, state_by=evil
    )
    pages = ["/admin/", "/admin/nhi/identity/", hub(), hub(tab="access/"), hub(tab="change/"), hub(tab="activate/")]
    for path in pages:
        html = mara.get(path).content.decode()
        assert "<svg" not in html, path


@pytest.mark.capability("CON-05")
def test_the_same_by_api_quotes_what_it_sends() -> None:
    command = by_api("POST", "/api/nhi/x", {"reason": "it's time"})["command"]
    assert command.startswith("curl -X POST http")
    assert "Bearer $TOKEN" in command
    assert "it'\\''s time" in command
    assert Template('{% load console %}{% by_api "GET" "/api/nhi/me" %}').render(Context())


@pytest.mark.capability("CON-05")
def test_links_keep_the_rest_of_the_address() -> None:
    query = QueryDict("kind=agent&page=3")
    assert with_query(query, page=None) == "?kind=agent"
    assert with_query(query, page=4) == "?kind=agent&page=4"
