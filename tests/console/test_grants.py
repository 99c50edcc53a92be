"""The lists of grants, the page of one, and who sees what."""

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import resolve
from django.utils import timezone

from nhi.access import grants
from nhi.actors import SYSTEM
from nhi.models import AuditEvent, Identity, ToolPermission, User
from nhi.people import people
from tests.console.conftest import SignedIn, identity
from tests.console.grants import KINDS, as_mara, at, rows, told, tool_grant
from tests.console.reading import plain

pytestmark = [pytest.mark.django_db, pytest.mark.capability("CON-05", "NHI-06", "NHI-07", "NHI-08")]
READERS = ("ada", "olga", "tom")
# ── Lists ───────────────────────────────────────────────────────────────────────────────────────────────────────
SHOWN = {
    "toolpermission": ("triage-bot", "github__create_issue", "arguments", "mara", "Files confirmed bugs", "Ends in"),
    "nhipermission": ("planner", "deploy-bot", "Delegate", "only release.*", "Starts releases on behalf", "Live"),
    "userpermission": ("olga", "triage-bot", "Manage", "On call for support", "does not end", "Live"),
    "roleassignment": ("planner", "reader", "mara", " d, ", "Live"),
}


@pytest.mark.parametrize("kind", SHOWN)
def test_a_list_says_who_what_within_which_limits_by_whom_and_until_when(signed_in: SignedIn, kind: str) -> None:
    answer = signed_in("mara").get(at(kind))
    page = plain(answer)
    for words in SHOWN[kind]:
        assert words in page
    assert re.search(r'toolpermission/" aria-current="page" data-go="a"', answer.content.decode())
    for tab in ("Agent to tool", "Between identities", "People", "Through roles"):
        assert tab in page


NARROWED = [
    ("toolpermission", "q=triage", 2),
    ("toolpermission", "q=bugs", 1),
    ("toolpermission", "server=jira", 2),
    ("toolpermission", "ends=7", 1),
    ("toolpermission", "given_by=mara", 4),
    ("toolpermission", "given_by=tom", 0),
    ("toolpermission", "state=live", 4),
    ("toolpermission", "state=revoked", 0),
    ("nhipermission", "wide=yes", 2),
    ("nhipermission", "may=delegate", 1),
    ("userpermission", "may=manage", 1),
    ("roleassignment", "wide=yes", 2),
    ("roleassignment", "q=nightly", 1),
]


@pytest.mark.parametrize(("kind", "query", "left"), NARROWED)
def test_filters_and_search_narrow_a_list(signed_in: SignedIn, kind: str, query: str, left: int) -> None:
    assert len(rows(signed_in("mara").get(f"{at(kind)}?{query}"))) == left


def test_a_grant_to_named_actions_only_has_no_star(signed_in: SignedIn) -> None:
    grants.give_nhi(
        actor=as_mara(), source=identity("writer"), target=identity("planner"), permission_type="call",
        allowed_actions=["release"], reason="One thing only",
    )  # fmt: skip
    answer = signed_in("mara").get(at("nhipermission", wide="yes"))
    assert "writer → planner" not in rows(answer)


def test_an_ended_and_a_revoked_grant_are_told_apart(signed_in: SignedIn) -> None:
    past = timezone.now() - timedelta(days=3)
    ToolPermission.objects.filter(pk=tool_grant().pk).update(expires_at=past, created_at=past - timedelta(days=9))
    grants.revoke(actor=as_mara(), grant=tool_grant("deploy-bot"), reason="Done")
    client = signed_in("mara")
    assert rows(client.get(at("toolpermission", state="expired"))) == ["triage-bot → github__create_issue"]
    assert rows(client.get(at("toolpermission", state="revoked"))) == ["deploy-bot → github__create_issue"]


def test_an_empty_list_teaches_and_a_filtered_one_offers_to_clear(signed_in: SignedIn) -> None:
    page = plain(signed_in("mara").get(at("toolpermission", server="nowhere")))
    assert "Nothing matches this filter" in page
    assert "Clear" in page


def test_a_list_without_rows_says_what_would_be_there() -> None:
    client = Client()
    client.force_login(people.create(actor=SYSTEM, username="mara", roles=["security-admin"]).user)
    page = plain(client.get(at("toolpermission")))
    assert "No agent may call a tool yet" in page
    assert "manage.py give_access agent/" in page


def test_an_export_keeps_the_filter_and_is_on_record(signed_in: SignedIn) -> None:
    ToolPermission.objects.filter(pk=tool_grant().pk).update(reason="=cmd()")
    answer = signed_in("ada").get(at("toolpermission", server="github", export="csv"))
    lines = answer.content.decode().splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("Agent and tool,Limits")
    assert "=cmd" in answer.content.decode()
    assert all(not cell.startswith("=") for line in lines for cell in line.split(","))
    event = AuditEvent.objects.get(event="export.made")
    assert (event.actor_name, event.details["rows"]) == ("ada", 2)


# ── Who sees what ───────────────────────────────────────────────────────────────────────────────────────────────
def outsider() -> Client:
    """Someone who may come in and holds no right: what they own and were given is all they see."""
    user = people.create(actor=SYSTEM, username="dev", superuser=False).user
    User.objects.filter(pk=user.pk).update(is_staff=True)
    Identity.objects.filter(name="deploy-bot").update(owner=user)
    client = Client()
    client.force_login(User.objects.get(pk=user.pk))
    return client


@pytest.mark.usefixtures("seeded")
def test_without_a_role_one_sees_the_grants_of_ones_own() -> None:
    client = outsider()
    assert rows(client.get(at("toolpermission"))) == ["deploy-bot → github__create_issue"]
    assert rows(client.get(at("nhipermission"))) == ["planner → deploy-bot"]
    assert rows(client.get(at("roleassignment"))) == []
    assert client.get(at("toolpermission", f"{tool_grant('deploy-bot').pk}/")).status_code == 200
    assert client.get(at("toolpermission", f"{tool_grant().pk}/")).status_code == 404


@pytest.mark.usefixtures("seeded")
def test_names_are_offered_to_those_who_may_see_them() -> None:
    client = outsider()
    agents = client.get("/admin/nhi/toolpermission/names/agent/?q=").json()["names"]
    assert [one["name"] for one in agents] == ["deploy-bot"]
    assert client.get("/admin/nhi/toolpermission/names/role/?q=").json()["names"] == []
    assert client.get("/admin/nhi/toolpermission/names/secret/?q=").status_code == 404


def test_names_begin_with_what_was_typed_before_they_hold_it(mara: Client) -> None:
    offered = mara.get("/admin/nhi/toolpermission/names/identity/?q=i").json()["names"]
    assert "triage-bot" in [one["name"] for one in offered]
    tools = mara.get("/admin/nhi/toolpermission/names/tool/?q=jira").json()["names"]
    assert [one["name"] for one in tools] == ["jira__edit", "jira__search"]


@pytest.mark.parametrize("username", READERS)
@pytest.mark.parametrize("kind", KINDS)
def test_who_only_reads_sees_no_control_and_is_refused(signed_in: SignedIn, username: str, kind: str) -> None:
    client, grant = signed_in(username), KINDS[kind].objects.earliest("created_at")
    for page in (at(kind), at(kind, f"{grant.pk}/")):
        body = client.get(page).content.decode()
        for control in ("give/", "revoke/", "renew/", "copy/", "many/", "data-tick"):
            assert control not in body
    one, several = f"{grant.pk}/", f"?id={grant.pk}"
    verbs = ["give/", f"{one}revoke/", f"{one}renew/", f"{one}copy/", f"bulk/revoke/{several}", "bulk/renew/"]
    verbs += [f"{one}limits/"] if kind in ("toolpermission", "nhipermission") else []
    for verb in verbs:
        answer = client.post(at(kind, verb), {"reason": "Because", "ends": "30", "to": "writer"})
        assert answer.status_code == 403, verb
    assert not KINDS[kind].objects.filter(revoked_at__isnull=False).exists()


def test_the_page_of_a_grant_says_all_of_it_and_disables_what_its_state_forbids(mara: Client) -> None:
    grant = tool_grant()
    page = mara.get(at("toolpermission", f"{grant.pk}/"))
    for words in ("acme/site", "Files confirmed bugs", "gave", "Why may or may not this call pass now?"):
        assert words in plain(page)
    grants.revoke(actor=SYSTEM, grant=grant, reason="Leaked")
    closed = mara.get(at("toolpermission", f"{grant.pk}/"))
    assert "It was revoked. Give it again." in plain(closed)
    assert "revoke/" not in closed.content.decode()


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_page_says_of_the_api_is_there(mara: Client, kind: str) -> None:
    one = KINDS[kind].objects.earliest("created_at").pk
    calls = [call for where in ("", f"{one}/", "give/", f"{one}/revoke/") for call in told(mara, at(kind, where))]
    assert [method for method, _ in calls] == ["GET", "GET", "POST", "POST"]
    for method, path in calls:
        assert resolve(path)
        if method == "GET":
            assert mara.get(path).status_code == 200
