"""The foot of a page that shows due times says whose clock they are by: not that of who looks."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from tests.console.conftest import enter
from tests.nhi import cast

pytestmark = [pytest.mark.capability("SUP-09", "CON-06"), pytest.mark.django_db]
LIST = "/admin/supervisor/schedule/"


@pytest.fixture
def mara(db: None) -> Client:
    cast.user("mara", "security-admin")
    client = Client()
    enter(client, "mara")
    return client


def foot(client: Client, path: str) -> str:
    page = client.get(path).content.decode()
    return page[page.index("Times are in ") :].split("</p>")[0]


def test_pages_of_schedules_say_whose_clock_due_times_are_by(make_schedule: Callable[..., Any], mara: Client) -> None:
    there = make_schedule(name="there", timezone="Europe/Berlin")
    here = make_schedule(name="here", timezone="UTC")
    assert foot(mara, LIST) == "Times are in UTC, due times by the clock of their schedule."
    for tab in ("", "fires/"):
        said = foot(mara, f"{LIST}{there.pk}/{tab}")
        assert said == "Times are in UTC, due times by the clock of Europe/Berlin.", tab
        assert foot(mara, f"{LIST}{here.pk}/{tab}") == "Times are in UTC."
    assert foot(mara, "/admin/") == "Times are in UTC."
    mara.cookies["zone"] = "Europe/Berlin"
    assert foot(mara, f"{LIST}{there.pk}/") == "Times are in Europe/Berlin."
