"""Grants by the dozen: verbs for what was ticked, and lists whose cost does not grow with their rows."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from nhi.access import grants
from nhi.actors import SYSTEM
from nhi.choices import Kind
from nhi.models import Identity, NhiPermission, Role, RoleAssignment, ToolPermission, User, UserPermission
from tests.console.conftest import identity
from tests.console.grants import at, rows, tool_grant
from tests.console.reading import plain

pytestmark = [pytest.mark.django_db, pytest.mark.capability("CON-05", "NHI-06", "NHI-07", "NHI-08", "NHI-09")]

MANY = 3000
MOST_QUERIES = 15


def ids(*ticked: Any) -> str:
    return "&".join(f"id={one.pk}" for one in ticked)


def live() -> list[ToolPermission]:
    return list(ToolPermission.objects.live().order_by("pk"))


def test_revoke_several_says_the_count_skips_what_ended_and_answers_for_each(mara: Client) -> None:
    ticked = live()
    grants.revoke(actor=SYSTEM, grant=ticked[0], reason="Before")
    where = f"{at('toolpermission', 'bulk/revoke/')}?{ids(*ticked)}"
    page = plain(mara.get(where))
    for words in ("Revoke 3 grants to tools", "Ends 3 grants", "1 skipped", "closed before", str(ticked[1])):
        assert words in page
    answer = mara.post(where, {"reason": "Access review", "seen": "grants:3,holders:3"})
    assert "Revoke: 3 of 4 done" in plain(answer)
    assert [item.result for item in answer.context["results"]] == ["done", "done", "done", "skipped"]
    assert not live()
    assert ToolPermission.objects.filter(revoke_reason="Access review").count() == 3


def test_more_than_was_seen_comes_back_instead_of_acting(mara: Client) -> None:
    where = f"{at('toolpermission', 'bulk/revoke/')}?{ids(*live())}"
    answer = mara.post(where, {"reason": "Access review", "seen": "grants:1,holders:1"})
    assert answer.status_code == 409
    assert len(live()) == 4


def test_one_that_cannot_be_done_stops_no_other(mara: Client) -> None:
    ticked = live()
    where = f"{at('toolpermission', 'bulk/renew/')}?{ids(*ticked)}"
    answer = mara.post(where, {"reason": "Still needed", "ends": "90"})
    results = {item.name: item for item in answer.context["results"]}
    refused = results["old-scraper → jira__search"]
    assert (refused.result, refused.message) == ("refused", "old-scraper is suspended; activate it first.")
    assert sum(item.result == "done" for item in results.values()) == 3
    later = timezone.now() + timedelta(days=89)
    assert ToolPermission.objects.live().filter(expires_at__gt=later).count() == 3
    assert tool_grant("old-scraper", "jira__search") in ticked


def test_more_than_twenty_need_the_number_typed(mara: Client) -> None:
    crowd(30)
    ticked = live()[:25]
    where = f"{at('toolpermission', 'bulk/revoke/')}?{ids(*ticked)}"
    seen = "grants:25,holders:25"
    assert mara.post(where, {"reason": "Access review", "seen": seen}).status_code == 422
    assert mara.post(where, {"reason": "Access review", "seen": seen, "typed": "25"}).status_code == 200
    assert not ToolPermission.objects.live().filter(pk__in=[one.pk for one in ticked]).exists()


def test_nothing_ticked_has_nothing_to_do(mara: Client) -> None:
    page = mara.get(at("toolpermission", "bulk/revoke/"))
    assert "Nothing to do" in plain(page)
    assert 'type="submit"' not in page.content.decode().split("data-dialog-form")[1].split("</form>")[0]


# ── Cost ────────────────────────────────────────────────────────────────────────────────────────────────────────
def crowd(size: int, *, start: int = 0) -> None:
    """So many agents, and of each kind of grant one for each of them; a role for each too."""
    owner = User.objects.get(username="mara")
    agents = Identity.objects.bulk_create(
        Identity(kind=Kind.AGENT, name=f"bot-{n}", owner=owner, state="active", created_by_name="mara")
        for n in range(start, start + size)
    )  # fmt: skip
    tool, planner, reader = identity("jira__search"), identity("planner"), Role.objects.get(name="reader")
    terms = {"reason": "Crowd", "granted_by_name": "mara"}
    ToolPermission.objects.bulk_create(ToolPermission(agent=one, tool=tool, **terms) for one in agents)
    NhiPermission.objects.bulk_create(NhiPermission(source=one, target=planner, **terms) for one in agents)
    UserPermission.objects.bulk_create(UserPermission(nhi=one, user=owner, **terms) for one in agents)
    RoleAssignment.objects.bulk_create(RoleAssignment(identity=one, role=reader, **terms) for one in agents)
    Role.objects.bulk_create(Role(name=f"role-{n}", created_by_name="mara") for n in range(start, start + size))


def queries(client: Client, path: str) -> int:
    # The counts of what needs a person are kept for seconds: asked anew each time, however long this test takes.
    cache.clear()
    with CaptureQueriesContext(connection) as asked:
        answer = client.get(path)
    assert answer.status_code == 200
    return len(asked)


LISTS = [
    *(at(kind) for kind in ("toolpermission", "nhipermission", "userpermission", "roleassignment", "role")),
    at("toolpermission", q="bot", state="live", server="jira"),
    at("nhipermission", wide="yes", sort="expires_at"),
    at("role", held="no"),
]


def costs(client: Client) -> dict[str, int]:
    return {path: queries(client, path) for path in LISTS}


def test_a_list_costs_the_same_with_thousands_of_rows(mara: Client) -> None:
    crowd(10)
    costs(mara)
    few = costs(mara)
    crowd(MANY, start=10)
    assert costs(mara) == few
    assert max(few.values()) <= MOST_QUERIES
    assert all(len(rows(mara.get(path))) == 50 for path in LISTS)
