"""The limits of a grant go by the same words wherever they are said."""

from typing import Any

import pytest
from django.test import Client

from nhi.access import grants
from nhi.actors import SYSTEM
from nhi.models import NhiPermission, ToolPermission
from tests.console.conftest import hub, identity

pytestmark = pytest.mark.capability("CON-05", "NHI-06")


def test_a_grant_is_limited_in_the_same_words_in_its_list_on_its_page_and_in_the_hub(mara: Client) -> None:
    given = grants.give_nhi(
        actor=SYSTEM, source=identity("writer"), target=identity("triage-bot"), permission_type="call", reason="Triage",
        allowed_actions=["sort", "tag", "close", "open"], max_calls_per_hour=60,
    )  # fmt: skip
    pages = ("/admin/nhi/nhipermission/", f"/admin/nhi/nhipermission/{given.pk}/", hub("writer", "access/"))
    for page in pages:
        html = mara.get(page).content.decode()
        assert "only sort, tag, close …" in html, page
        assert "60 per hour" in html, page


#: A page of an agent's hub, by its tab.
OWN = "give/"


def _page(page: str) -> str:
    return hub("writer", OWN) if page == OWN else page


@pytest.mark.parametrize("page", ["/admin/nhi/toolpermission/give/", "/admin/nhi/toolpermission/many/", OWN])
def test_every_limit_of_a_tools_grant_is_offered(mara: Client, page: str) -> None:
    form = mara.get(_page(page)).context["form"]
    offered = [field.name for field in form.limit_fields if "tools" in getattr(field.field, "shown_for", "tools")]
    assert offered == ["parameters", "per_hour", "approval"]
    assert not {"parameters", "per_hour", "approval"} & {field.name for field in form.main_fields}


def test_of_a_grant_between_identities_tasks_are_limited_and_no_call_waits(mara: Client) -> None:
    form = mara.get("/admin/nhi/nhipermission/give/").context["form"]
    assert [field.name for field in form.limit_fields] == ["only_some", "actions", "per_hour"]
    assert not {"parameters", "approval"} & set(form.fields)


LIMITS = {"parameters": '{"minProperties": 1}', "per_hour": "60", "approval": "on", "ends": "90", "reason": "Trial"}
NONE = {"parameters": "", "per_hour": "", "reason": "Trial"}
WAYS = [
    ("/admin/nhi/toolpermission/give/", {"agent": "writer", "tool": "github__delete_repo"}),
    (OWN, {"what": "pattern", "pattern": "github.delete_repo"}),
]


@pytest.mark.parametrize(("page", "named"), WAYS)
def test_a_tools_grant_is_given_with_limits_and_they_are_changed(
    mara: Client, page: str, named: dict[str, str]
) -> None:
    assert mara.post(_page(page), {**named, **LIMITS}).status_code == 302
    given = ToolPermission.objects.get(agent=identity("writer"), tool=identity("github__delete_repo"))
    assert _terms(given) == ({"minProperties": 1}, 60, True)
    shown = mara.get(f"/admin/nhi/toolpermission/{given.pk}/").content.decode()
    for words in ("60 per hour", "needs approval"):
        assert words in shown
    dialog = _limits(mara, given)
    assert dialog.context["form"].initial["per_hour"] == 60
    assert mara.post(_where(given), {**LIMITS, "per_hour": "0"}).status_code == 422
    assert mara.post(_where(given), {**LIMITS, "per_hour": "5"}).status_code == 302
    changed = ToolPermission.objects.get(agent=given.agent, tool=given.tool, revoked_at=None)
    assert _terms(changed) == ({"minProperties": 1}, 5, True)
    assert mara.post(_where(changed), NONE).status_code == 302
    free = ToolPermission.objects.get(agent=given.agent, tool=given.tool, revoked_at=None)
    assert _terms(free) == (None, None, False)


def test_many_grants_are_given_with_limits(mara: Client) -> None:
    page = "/admin/nhi/toolpermission/many/"
    asked = {**LIMITS, "agents": "writer", "what": "tools", "tools": "github__delete_repo"}
    seen = mara.post(page, asked).context["seen"]
    assert mara.post(page, {**asked, "do": "give", "seen": seen}).status_code == 200
    given = ToolPermission.objects.get(agent=identity("writer"), tool=identity("github__delete_repo"))
    assert _terms(given) == ({"minProperties": 1}, 60, True)


def test_tasks_per_hour_between_identities_are_set_shown_changed_and_dropped(mara: Client) -> None:
    sides = {"source": "writer", "target": "triage-bot", "may": "call"}
    asked = {**sides, "per_hour": "60", "ends": "90", "reason": "Trial"}
    assert mara.post("/admin/nhi/nhipermission/give/", {**asked, "per_hour": "0"}).status_code == 422
    assert mara.post("/admin/nhi/nhipermission/give/", asked).status_code == 302

    def live() -> NhiPermission:
        return NhiPermission.objects.get(source=identity("writer"), target=identity("triage-bot"), revoked_at=None)

    given, place = live(), "/admin/nhi/nhipermission/{}/limits/"
    assert given.max_calls_per_hour == 60
    assert "60 per hour" in mara.get(f"/admin/nhi/nhipermission/{given.pk}/").content.decode()
    assert mara.get(place.format(given.pk)).context["form"].initial["per_hour"] == 60
    changed = {"only_some": "on", "per_hour": "5", "reason": "Less"}
    assert mara.post(place.format(given.pk), changed).status_code == 302
    assert (live().allowed_actions, live().max_calls_per_hour) == ([], 5)
    assert mara.post(place.format(live().pk), {"reason": "Free"}).status_code == 302
    assert (live().allowed_actions, live().max_calls_per_hour) == (None, None)


def _terms(grant: ToolPermission) -> tuple[Any, ...]:
    return grant.allowed_parameters, grant.max_calls_per_hour, grant.requires_approval


def _where(grant: ToolPermission) -> str:
    return f"/admin/nhi/toolpermission/{grant.pk}/limits/"


def _limits(client: Client, grant: ToolPermission) -> Any:
    return client.get(_where(grant))
