"""A permit is for one agent, tool and arguments, and never for a call behind which its giver stands."""

import pytest

from mcp.models import CallApproval
from nhi.actors import SYSTEM
from nhi.models import AuditEvent, InvocationLog
from nhi.people import people
from tests.a2a.four_eyes.office import Office, claimed_token
from tests.api.callers import calling
from tests.nhi import cast

pytestmark = [
    pytest.mark.capability("NHI-14"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]


def run_of(office: Office, by: str) -> str:
    office.execute(by, office.agent())
    return claimed_token()


def test_another_run_uses_it_when_its_giver_has_nothing_to_do_with_that(office: Office) -> None:
    approval = office.waiting_call(run_of(office, "oscar"))
    assert office.decide("tom", approval).status == 200
    assert office.call(run_of(office, "mallory")).status == 200
    approval.refresh_from_db()
    assert approval.state == "used"


def test_who_gave_it_does_not_use_it_by_a_run_of_their_own(office: Office) -> None:
    permit = office.waiting_call(run_of(office, "oscar"))
    assert office.decide("tom", permit).status == 200
    own = run_of(office, "tom")
    again = office.waiting_call(own)
    permit.refresh_from_db()
    assert (permit.state, permit.used_by) == ("expired", None)
    assert again.pk != permit.pk
    assert office.is_barred("tom", again)
    assert office.decide("ann", again).status == 200
    assert office.call(own).status == 200


def test_a_superuser_decides_about_their_own_work_on_record(office: Office) -> None:
    """Where there is one person alone, a call can still be made; every run of theirs uses such a permit."""

    root = people.create(actor=SYSTEM, username="root", superuser=True).user
    office.people["root"] = calling(root)
    approval = office.waiting_call(run_of(office, "root"))
    assert office.decide("root", approval).status == 200
    event = AuditEvent.objects.get(event="approval.approved")
    assert event.details["break_glass"] is True
    answer = office.call(run_of(office, "root"))
    assert answer.status == 200
    assert InvocationLog.objects.get(pk=answer.headers["X-Call-ID"]).details["break_glass"] is True


def test_a_superuser_who_did_not_ask_breaks_no_glass(office: Office) -> None:

    office.people["root"] = calling(people.create(actor=SYSTEM, username="root", superuser=True).user)
    approval = office.waiting_call(run_of(office, "oscar"))
    assert office.decide("root", approval).status == 200
    assert "break_glass" not in AuditEvent.objects.get(event="approval.approved").details
    # The superuser's own run needs a decision of its own, which goes on record.
    again = office.waiting_call(run_of(office, "root"))
    assert office.decide("root", again).status == 200
    assert CallApproval.objects.get(pk=again.pk).break_glass
    assert cast.events(again) == ["approval.asked", "approval.approved"]
