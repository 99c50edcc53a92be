"""The lists of grants, and the verbs for one of them: give, revoke, renew, copy."""

import json
import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.urls import resolve
from django.utils import timezone

from common.errors import Invalid
from nhi import actors, grants, lifecycle, people, roles
from nhi.actors import SYSTEM
from nhi.models import (
    AuditEvent,
    Identity,
    NhiPermission,
    Role,
    RoleAssignment,
    ToolPermission,
    User,
    UserPermission,
)
from tests.console.conftest import SignedIn, identity

pytestmark = [pytest.mark.django_db, pytest.mark.capability("CON-05", "NHI-06", "NHI-07", "NHI-08")]

KINDS = {
    "toolpermission": ToolPermission,
    "nhipermission": NhiPermission,
    "userpermission": UserPermission,
    "roleassignment": RoleAssignment,
}
READERS = ("ada", "olga", "tom")


def at(kind: str, where: str = "", **query: str) -> str:
    found = "&".join(f"{name}={value}" for name, value in query.items())
    return f"/admin/nhi/{kind}/{where}{'?' if found else ''}{found}"


def text(answer: Any) -> str:
    """The page as one reads it: without markup, on one line."""
    body = re.sub(r"<(script|style).*?</\1>", "", answer.content.decode(), flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body))


def rows(answer: Any) -> list[str]:
    return [row["name"] for row in answer.context["rows"]]


def tool_grant(agent: str = "triage-bot", tool: str = "github__create_issue") -> ToolPermission:
    return ToolPermission.objects.get(agent__name=agent, tool__name=tool, revoked_at=None)


def as_mara() -> actors.Actor:
    return actors.person(User.objects.get(username="mara"))


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
    page = text(answer)
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
    page = text(signed_in("mara").get(at("toolpermission", server="nowhere")))
    assert "Nothing matches this filter" in page
    assert "Clear" in page


def test_a_list_without_rows_says_what_would_be_there() -> None:
    client = Client()
    client.force_login(people.create(actor=SYSTEM, username="mara", roles=["security-admin"]).user)
    page = text(client.get(at("toolpermission")))
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


# ── Give ────────────────────────────────────────────────────────────────────────────────────────────────────────
def give(client: Client, kind: str, **fields: str) -> Any:
    return client.post(at(kind, "give/"), {"ends": "30", "reason": "Needed for its work", **fields})


def test_give_an_agent_a_tool_within_limits(mara: Client) -> None:
    schema = '{"type": "object", "required": ["project"]}'
    answer = give(mara, "toolpermission", agent="writer", tool="jira__edit", parameters=schema, ends="7")
    grant = tool_grant("writer", "jira__edit")
    assert answer.headers["Location"] == at("toolpermission", f"{grant.pk}/")
    assert grant.allowed_parameters == {"type": "object", "required": ["project"]}
    assert grant.expires_at
    assert timedelta(days=6) < grant.expires_at - timezone.now() < timedelta(days=8)
    assert (grant.granted_by_name, grant.reason) == ("mara", "Needed for its work")
    assert AuditEvent.objects.filter(event="grant.given", subject_id=grant.pk).exists()


def test_let_an_identity_call_another_for_some_actions(mara: Client) -> None:
    given = {"source": "writer", "target": "planner", "may": "delegate", "actions": "plan.*, review", "ends": "never"}
    assert give(mara, "nhipermission", **given).status_code == 302
    grant = NhiPermission.objects.get(source__name="writer")
    assert (grant.permission_type, grant.allowed_actions, grant.expires_at) == ("delegate", ["plan.*", "review"], None)


def test_no_action_at_all_is_not_every_action(mara: Client) -> None:
    given = {"source": "writer", "target": "planner", "may": "call"}
    give(mara, "nhipermission", **given, only_some="on")
    assert NhiPermission.objects.get(source__name="writer").allowed_actions == []
    give(mara, "nhipermission", **{**given, "target": "deploy-bot"})
    assert NhiPermission.objects.get(source__name="writer", target__name="deploy-bot").allowed_actions is None


def test_give_a_person_an_identity_until_a_date(mara: Client) -> None:
    given = {"person": "tom", "nhi": "writer", "level": "use", "ends": "date", "ends_on": "2099-01-31T09:00"}
    assert give(mara, "userpermission", **given).status_code == 302
    grant = UserPermission.objects.get(user__username="tom")
    assert grant.level == "use"
    assert grant.expires_at
    assert grant.expires_at.year == 2099


def test_assign_a_role(mara: Client) -> None:
    answer = mara.post(at("roleassignment", "give/", back="role"), {"identity": "ci", "role": "reader", "ends": "90"})
    assert answer.headers["Location"] == f"/admin/nhi/role/{Role.objects.get(name='reader').pk}/"
    assert RoleAssignment.objects.live().filter(identity__name="ci", role__name="reader").exists()


REFUSED: list[tuple[str, dict[str, str], str, int]] = [
    ("toolpermission", {"agent": "no-such", "tool": "jira__edit"}, "no agent no-such that you can see", 422),
    ("toolpermission", {"agent": "ci", "tool": "jira__edit"}, "no agent ci that you can see", 422),
    ("toolpermission", {"agent": "writer"}, "This field is required", 422),
    ("toolpermission", {"agent": "writer", "tool": "jira__edit", "reason": ""}, "This field is required", 422),
    ("toolpermission", {"agent": "writer", "tool": "jira__edit", "parameters": "{"}, "This is not JSON", 422),
    ("toolpermission", {"agent": "writer", "tool": "jira__edit", "ends": "date"}, "Choose the date", 422),
    ("toolpermission", {"agent": "old-scraper", "tool": "jira__edit"}, "old-scraper is suspended", 400),
    ("toolpermission", {"agent": "deploy-bot", "tool": "github__create_issue"}, "given already", 409),
    ("nhipermission", {"source": "writer", "target": "writer", "may": "call"}, "needs no grant to itself", 400),
    ("userpermission", {"person": "nobody", "nhi": "writer", "level": "use"}, "no person nobody", 422),
]


@pytest.mark.parametrize(("kind", "fields", "said", "status"), REFUSED)
def test_what_cannot_be_given_is_said_beside_its_field(
    mara: Client, kind: str, fields: dict[str, str], said: str, status: int
) -> None:
    count = KINDS[kind].objects.count()
    answer = give(mara, kind, **fields)
    assert answer.status_code == status
    assert said in text(answer)
    assert KINDS[kind].objects.count() == count


def test_a_form_begins_with_the_names_of_its_address(mara: Client) -> None:
    agent, tool = identity("writer"), identity("jira__edit")
    page = mara.get(at("toolpermission", "give/", agent=str(agent.pk), tool=str(tool.pk))).content.decode()
    assert 'value="writer"' in page
    assert 'value="jira__edit"' in page
    assert str(agent.pk) not in page.split('name="agent"')[1].split(">")[0]


def test_a_name_that_two_kinds_share_asks_which(mara: Client) -> None:
    identities = Identity.objects.get(name="ci")
    Identity.objects.filter(name="writer").update(name="ci")
    answer = give(mara, "nhipermission", source="ci", target="planner", may="call")
    assert "ci (agent) or ci (service account)" in text(answer)
    assert give(mara, "nhipermission", source="ci (service account)", target="planner", may="call").status_code == 302
    assert NhiPermission.objects.latest("created_at").source == identities


# ── Revoke, renew, copy ─────────────────────────────────────────────────────────────────────────────────────────
def test_revoke_says_what_ends_then_ends_it_with_its_reason(mara: Client) -> None:
    grant = tool_grant()
    page = text(mara.get(at("toolpermission", f"{grant.pk}/revoke/")))
    assert "triage-bot may no longer call github__create_issue" in page
    assert "Revoke triage-bot → github__create_issue" in page
    answer = mara.post(at("toolpermission", f"{grant.pk}/revoke/"), {"reason": "Access review", "seen": "calls:1"})
    assert answer.status_code == 302
    grant.refresh_from_db()
    assert (grant.state, grant.revoke_reason, grant.revoked_by_name) == ("revoked", "Access review", "mara")


def test_revoke_says_what_still_covers_the_call(mara: Client) -> None:
    roles.assign(actor=SYSTEM, role=Role.objects.get(name="reader"), identity=identity("triage-bot"))
    page = text(mara.get(at("toolpermission", f"{tool_grant('triage-bot', 'jira__search').pk}/revoke/")))
    assert "triage-bot may still call jira__search: the role reader covers it too" in page


def test_a_second_revoke_changes_nothing_and_says_so(mara: Client) -> None:
    grant = tool_grant()
    grants.revoke(actor=SYSTEM, grant=grant, reason="First")
    answer = mara.post(at("toolpermission", f"{grant.pk}/revoke/"), {"reason": "Second"})
    assert answer.status_code == 409
    assert "Nothing was changed" in text(answer)
    grant.refresh_from_db()
    assert grant.revoke_reason == "First"


def test_who_revokes_what_was_renewed_meanwhile_is_told_so(mara: Client) -> None:
    grant = tool_grant()
    grants.renew(actor=SYSTEM, grant=grant, expires_at=None, reason="Needed on")
    with pytest.raises(grants.AlreadyRevoked, match="closed before by Gatehouse: “Renewed: Needed on”"):
        grants.revoke(actor=as_mara(), grant=grant, reason="Leaked")
    answer = mara.post(at("toolpermission", f"{grant.pk}/revoke/"), {"reason": "Leaked"})
    assert "Renewed: Needed on" in text(answer)
    assert tool_grant().state == "live"


def test_a_revoke_needs_a_reason(mara: Client) -> None:
    grant = tool_grant()
    assert mara.post(at("toolpermission", f"{grant.pk}/revoke/"), {"reason": " "}).status_code == 422
    assert tool_grant() == grant


def test_renew_keeps_the_terms_closes_the_old_and_is_on_record(mara: Client) -> None:
    old = tool_grant()
    answer = mara.post(at("toolpermission", f"{old.pk}/renew/"), {"ends": "90", "reason": "Still needed"})
    again = tool_grant()
    assert answer.headers["Location"] == at("toolpermission", f"{again.pk}/")
    assert again.pk != old.pk
    assert again.allowed_parameters == old.allowed_parameters
    assert again.expires_at
    assert again.expires_at > timezone.now() + timedelta(days=89)
    old.refresh_from_db()
    assert (old.state, old.revoke_reason) == ("revoked", "Renewed: Still needed")
    event = AuditEvent.objects.get(event="grant.renewed")
    assert (event.subject_id, event.after["replaces"], event.reason) == (again.pk, str(old.pk), "Still needed")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_renewed_on_the_same_terms(mara: Client, kind: str) -> None:
    old = KINDS[kind].objects.earliest("created_at")
    mara.post(at(kind, f"{old.pk}/renew/"), {"ends": "7", "reason": "Still needed"})
    again = KINDS[kind].objects.latest("created_at")
    assert {**grants.terms(again), "expires_at": 0} == {**grants.terms(old), "expires_at": 0}
    assert str(again) == str(old)
    assert again.state == "live"


def test_an_ended_grant_is_renewed_and_stays_told_as_ended(mara: Client) -> None:
    old = tool_grant("triage-bot", "jira__search")
    past = timezone.now() - timedelta(days=3)
    ToolPermission.objects.filter(pk=old.pk).update(expires_at=past)
    assert "It ended 3 d ago" in text(mara.get(at("toolpermission", f"{old.pk}/renew/")))
    mara.post(at("toolpermission", f"{old.pk}/renew/"), {"ends": "30", "reason": "Still needed"})
    old.refresh_from_db()
    assert old.state == "expired"
    assert tool_grant("triage-bot", "jira__search").state == "live"


def test_a_revoked_grant_is_not_renewed(mara: Client) -> None:
    grant = tool_grant()
    grants.revoke(actor=SYSTEM, grant=grant, reason="Leaked")
    answer = mara.post(at("toolpermission", f"{grant.pk}/renew/"), {"ends": "30", "reason": "Again"})
    assert answer.status_code == 409
    assert not ToolPermission.objects.live().filter(agent=grant.agent, tool=grant.tool).exists()


def test_nothing_is_renewed_for_who_was_stopped(mara: Client) -> None:
    grant = tool_grant()
    lifecycle.suspend(actor=SYSTEM, identity=grant.agent, reason="Leaked")
    answer = mara.post(at("toolpermission", f"{grant.pk}/renew/"), {"ends": "30", "reason": "Again"})
    assert answer.status_code == 400
    assert tool_grant() == grant


def test_other_limits_hold_at_once_until_the_same_end_and_are_on_record(mara: Client) -> None:
    old = tool_grant()
    where = at("toolpermission", f"{old.pk}/limits/")
    assert "acme/site" in mara.get(where).content.decode()
    schema = '{"type": "object", "properties": {"repo": {"enum": ["acme/docs"]}}}'
    answer = mara.post(where, {"parameters": schema, "reason": "Narrowed after a review"})
    changed = tool_grant()
    assert answer.headers["Location"] == at("toolpermission", f"{changed.pk}/")
    assert changed.allowed_parameters == json.loads(schema)
    assert changed.expires_at == old.expires_at
    old.refresh_from_db()
    assert old.revoke_reason == "Limits changed: Narrowed after a review"
    event = AuditEvent.objects.get(event="grant.changed")
    assert "acme/site" in str(event.before["allowed_parameters"])
    assert event.after["allowed_parameters"] == json.loads(schema)


def test_actions_are_narrowed_and_widened_again(mara: Client) -> None:
    one = NhiPermission.objects.get(permission_type="delegate")
    mara.post(at("nhipermission", f"{one.pk}/limits/"), {"actions": "release.cut", "reason": "Narrower"})
    narrow = NhiPermission.objects.get(permission_type="delegate", revoked_at=None)
    assert narrow.allowed_actions == ["release.cut"]
    assert 'value="release.cut"' in mara.get(at("nhipermission", f"{narrow.pk}/limits/")).content.decode()
    mara.post(at("nhipermission", f"{narrow.pk}/limits/"), {"actions": "", "reason": "All of them"})
    assert NhiPermission.objects.get(permission_type="delegate", revoked_at=None).allowed_actions is None


def test_limits_that_cannot_be_are_said_beside_their_field(mara: Client) -> None:
    one = tool_grant()
    where = at("toolpermission", f"{one.pk}/limits/")
    answer = mara.post(where, {"parameters": '{"type": "nonsense"}', "reason": "Wrong"})
    assert answer.status_code == 400
    assert "This is no usable JSON Schema" in text(answer)
    assert tool_grant() == one
    with pytest.raises(Invalid, match="no such limit"):
        grants.change_limits(actor=as_mara(), grant=one, limits={"allowed_actions": []}, reason="Wrong kind")


def test_an_ended_grant_has_no_limits_to_change(mara: Client) -> None:
    grants.revoke(actor=SYSTEM, grant=(one := tool_grant()), reason="Done")
    assert mara.post(at("toolpermission", f"{one.pk}/limits/"), {"reason": "Late"}).status_code == 409


COPIES = {
    "toolpermission": ("writer", "agent"),
    "nhipermission": ("ci", "source"),
    "userpermission": ("tom", "user"),
    "roleassignment": ("writer", "identity"),
}


@pytest.mark.parametrize("kind", COPIES)
def test_a_copy_has_the_same_terms_for_another_holder(mara: Client, kind: str) -> None:
    one = KINDS[kind].objects.earliest("created_at")
    to, side = COPIES[kind]
    answer = mara.post(at(kind, f"{one.pk}/copy/"), {"to": to, "reason": "Does the same work"})
    copied = KINDS[kind].objects.latest("created_at")
    assert answer.headers["Location"] == at(kind, f"{copied.pk}/")
    assert str(getattr(copied, side)) == to
    assert grants.terms(copied) == grants.terms(one)


def test_the_page_of_a_grant_says_all_of_it_and_disables_what_its_state_forbids(mara: Client) -> None:
    grant = tool_grant()
    page = mara.get(at("toolpermission", f"{grant.pk}/"))
    for words in ("acme/site", "Files confirmed bugs", "gave", "Why may or may not this call pass now?"):
        assert words in text(page)
    grants.revoke(actor=SYSTEM, grant=grant, reason="Leaked")
    closed = mara.get(at("toolpermission", f"{grant.pk}/"))
    assert "It was revoked. Give it again." in text(closed)
    assert "revoke/" not in closed.content.decode()


def test_a_dialog_leads_back_to_where_it_was_opened(mara: Client) -> None:
    grant = tool_grant()
    answer = mara.post(at("toolpermission", f"{grant.pk}/revoke/", back="agent"), {"reason": "Done", "seen": "calls:1"})
    assert answer.headers["Location"] == f"/admin/nhi/identity/{grant.agent_id}/access/"
    other = tool_grant("deploy-bot")
    answer = mara.post(
        at("toolpermission", f"{other.pk}/revoke/", back="//evil"), {"reason": "Done", "seen": "calls:1"}
    )
    assert answer.headers["Location"] == at("toolpermission", f"{other.pk}/")


def told(client: Client, path: str) -> list[tuple[str, str]]:
    """Method and path of every call that a page offers as `curl`."""
    body = unescape(client.get(path).content.decode())
    return re.findall(r"curl -X (\w+) https?://[^/]+(/api/\S+)", body)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_page_says_of_the_api_is_there(mara: Client, kind: str) -> None:
    one = KINDS[kind].objects.earliest("created_at").pk
    calls = [call for where in ("", f"{one}/", "give/", f"{one}/revoke/") for call in told(mara, at(kind, where))]
    assert [method for method, _ in calls] == ["GET", "GET", "POST", "POST"]
    for method, path in calls:
        assert resolve(path)
        if method == "GET":
            assert mara.get(path).status_code == 200


def test_what_is_given_already_leads_to_the_grant_there_is(mara: Client) -> None:
    one = tool_grant()
    fields = {"agent": one.agent.name, "tool": one.tool.name, "ends": "30", "reason": "Again"}
    answer = mara.post(at("toolpermission", "give/"), fields)
    assert answer.status_code == 409
    assert f'<a href="{at("toolpermission", f"{one.pk}/")}">Open it</a>' in answer.content.decode()
