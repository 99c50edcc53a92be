"""What is done with one grant: revoke, renew, other limits, copy."""

import json
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from common.errors import InvalidInput
from nhi.access import grants, roles
from nhi.actors import SYSTEM
from nhi.identities import lifecycle
from nhi.models import AuditEvent, NhiPermission, Role, ToolPermission
from tests.console.conftest import identity
from tests.console.grants import KINDS, as_mara, at, tool_grant
from tests.console.reading import plain

pytestmark = [pytest.mark.django_db, pytest.mark.capability("CON-05", "NHI-06", "NHI-07", "NHI-08")]


def test_revoke_says_what_ends_then_ends_it_with_its_reason(mara: Client) -> None:
    grant = tool_grant()
    page = plain(mara.get(at("toolpermission", f"{grant.pk}/revoke/")))
    assert "triage-bot may no longer call github__create_issue" in page
    assert "Revoke triage-bot → github__create_issue" in page
    answer = mara.post(at("toolpermission", f"{grant.pk}/revoke/"), {"reason": "Access review", "seen": "calls:1"})
    assert answer.status_code == 302
    grant.refresh_from_db()
    assert (grant.state, grant.revoke_reason, grant.revoked_by_name) == ("revoked", "Access review", "mara")


def test_revoke_says_what_still_covers_the_call(mara: Client) -> None:
    roles.assign(actor=SYSTEM, role=Role.objects.get(name="reader"), identity=identity("triage-bot"))
    page = plain(mara.get(at("toolpermission", f"{tool_grant('triage-bot', 'jira__search').pk}/revoke/")))
    assert "triage-bot may still call jira__search: the role reader covers it too" in page


def test_a_second_revoke_changes_nothing_and_says_so(mara: Client) -> None:
    grant = tool_grant()
    grants.revoke(actor=SYSTEM, grant=grant, reason="First")
    answer = mara.post(at("toolpermission", f"{grant.pk}/revoke/"), {"reason": "Second"})
    assert answer.status_code == 409
    assert "Nothing was changed" in plain(answer)
    grant.refresh_from_db()
    assert grant.revoke_reason == "First"


def test_who_revokes_what_was_renewed_meanwhile_is_told_so(mara: Client) -> None:
    grant = tool_grant()
    grants.renew(actor=SYSTEM, grant=grant, expires_at=None, reason="Needed on")
    with pytest.raises(grants.AlreadyRevoked, match="closed before by Gatehouse: “Renewed: Needed on”"):
        grants.revoke(actor=as_mara(), grant=grant, reason="Leaked")
    answer = mara.post(at("toolpermission", f"{grant.pk}/revoke/"), {"reason": "Leaked"})
    assert "Renewed: Needed on" in plain(answer)
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
    assert {**grants.audit_fields(again), "expires_at": 0} == {**grants.audit_fields(old), "expires_at": 0}
    assert str(again) == str(old)
    assert again.state == "live"


def test_an_ended_grant_is_renewed_and_stays_told_as_ended(mara: Client) -> None:
    old = tool_grant("triage-bot", "jira__search")
    past = timezone.now() - timedelta(days=3)
    ToolPermission.objects.filter(pk=old.pk).update(expires_at=past)
    assert "It ended 3 d ago" in plain(mara.get(at("toolpermission", f"{old.pk}/renew/")))
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
    assert "This is no usable JSON Schema" in plain(answer)
    assert tool_grant() == one
    with pytest.raises(InvalidInput, match="no such limit"):
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
    assert grants.audit_fields(copied) == grants.audit_fields(one)


def test_a_dialog_leads_back_to_where_it_was_opened(mara: Client) -> None:
    grant = tool_grant()
    answer = mara.post(at("toolpermission", f"{grant.pk}/revoke/", back="agent"), {"reason": "Done", "seen": "calls:1"})
    assert answer.headers["Location"] == f"/admin/nhi/identity/{grant.agent_id}/access/"
    other = tool_grant("deploy-bot")
    answer = mara.post(
        at("toolpermission", f"{other.pk}/revoke/", back="//evil"), {"reason": "Done", "seen": "calls:1"}
    )
    assert answer.headers["Location"] == at("toolpermission", f"{other.pk}/")
