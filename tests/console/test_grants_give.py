"""Giving a grant: to an agent, between identities, to a person, through a role; and what cannot be given."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from nhi.models import AuditEvent, Identity, NhiPermission, Role, RoleAssignment, UserPermission
from tests.console.conftest import identity
from tests.console.grants import KINDS, at, tool_grant
from tests.console.reading import plain

pytestmark = [pytest.mark.django_db, pytest.mark.capability("CON-05", "NHI-06", "NHI-07", "NHI-08")]


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
    assert said in plain(answer)
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
    assert "ci (agent) or ci (service account)" in plain(answer)
    assert give(mara, "nhipermission", source="ci (service account)", target="planner", may="call").status_code == 302
    assert NhiPermission.objects.latest("created_at").source == identities


def test_what_is_given_already_leads_to_the_grant_there_is(mara: Client) -> None:
    one = tool_grant()
    fields = {"agent": one.agent.name, "tool": one.tool.name, "ends": "30", "reason": "Again"}
    answer = mara.post(at("toolpermission", "give/"), fields)
    assert answer.status_code == 409
    assert f'<a href="{at("toolpermission", f"{one.pk}/")}">Open it</a>' in answer.content.decode()
