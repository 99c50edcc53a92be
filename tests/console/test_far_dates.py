"""Dates near the ends of the calendar: none is taken that some zone cannot say, and none takes a page down."""

import json
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.test import Client
from django.utils import timezone

from common.console import times
from nhi.models import Identity, ToolPermission, User
from tests.console.conftest import hub, identity

pytestmark = pytest.mark.capability("CON-05")
LAST, FIRST = datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)
FURTHER = "9999-12-31T23:59"


def in_zone(name: str) -> None:
    User.objects.filter(username="mara").update(time_zone=name)


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago", "UTC"])
@pytest.mark.parametrize("moment", [LAST, FIRST])
def test_every_moment_can_be_said_in_every_zone(zone: str, moment: datetime) -> None:
    with timezone.override(ZoneInfo(zone)):
        local = moment.replace(tzinfo=ZoneInfo(zone))
        for one in (moment, local):
            assert times.relative(one, timezone.now())
            assert times.absolute(one, timezone.now())
            assert times.exact(one)
            assert times.stamp(one).endswith("Z")
        assert times.lasts(timedelta.max)


def test_a_row_with_the_last_moment_there_is_can_still_be_looked_at(mara: Client) -> None:
    Identity.objects.filter(pk=identity().pk).update(expires_at=LAST)
    ToolPermission.objects.filter(agent=identity()).update(expires_at=LAST)
    in_zone("Pacific/Kiritimati")
    for page in ("/admin/nhi/identity/", "/admin/nhi/toolpermission/", hub(), hub(tab="access/"), hub(tab="change/")):
        assert mara.get(page).status_code == 200, page


def test_an_end_from_the_year_2200_on_is_refused(mara: Client) -> None:
    path = f"/api/nhi/identities/{identity().pk}"
    for moment in ("9999-12-31T23:59:59Z", "2200-01-01T00:00:00Z"):
        answer = mara.patch(path, json.dumps({"expires_at": moment}), content_type="application/json")
        assert answer.status_code == 400
        assert answer.json()["details"]["fields"] == [
            {"field": "expires_at", "message": "Choose a time before the year 2200."}
        ]
    fine = mara.patch(path, json.dumps({"expires_at": "2199-12-31T23:59:59Z"}), content_type="application/json")
    assert fine.status_code == 200


@pytest.mark.parametrize("zone", ["Pacific/Pago_Pago", "Pacific/Kiritimati"])
@pytest.mark.parametrize("typed", [FURTHER, "0001-01-01T00:00"])
def test_a_date_at_the_end_of_the_calendar_is_refused_beside_its_field(mara: Client, zone: str, typed: str) -> None:
    in_zone(zone)
    asked = {"caller": str(identity().pk), "target": str(identity("github__create_issue").pk), "at": typed}
    explained = mara.get("/admin/explain/", asked)
    assert explained.status_code == 400
    assert explained.context["form"].errors["at"]
    given = mara.post("/admin/nhi/toolpermission/give/", {"ends": "date", "ends_on": typed})
    assert given.context["form"].errors["ends_on"]
    changed = mara.post(hub(tab="change/"), {"expires_at": typed})
    assert changed.context["form"].errors["expires_at"]


@pytest.mark.parametrize("zone", ["Pacific/Pago_Pago", "Pacific/Kiritimati"])
@pytest.mark.parametrize("typed", [FURTHER, "0001-01-01T00:00"])
def test_the_record_can_be_asked_for_any_date(mara: Client, zone: str, typed: str) -> None:
    in_zone(zone)
    for name in ("from", "to", "since", "until"):
        assert mara.get("/admin/nhi/auditevent/", {name: typed}).status_code == 200
