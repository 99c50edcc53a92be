"""What waits while Gatehouse is brought up to date is decided by the right people afterwards."""

import pytest

from mcp.models import CallApproval, CallApprovalOrigin
from tests.a2a.four_eyes.office import Office, claimed_token
from tests.services.upgrades import back_at

pytestmark = [
    pytest.mark.capability("NHI-14"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]


def test_a_call_that_waits_meanwhile(office: Office) -> None:
    """Its row has no origins: they are found from the row of the call when somebody decides."""
    office.execute("mallory", office.agent())
    approval = office.waiting_call(claimed_token())
    with back_at("mcp", "0001_initial"):
        pass
    approval = CallApproval.objects.get(pk=approval.pk)
    assert not CallApprovalOrigin.objects.exists()
    assert (approval.state, approval.needs_superuser, approval.break_glass) == ("pending", False, False)
    assert office.decide("mallory", approval).is_refused(403, "Unauthorized", "own_request")
    assert CallApprovalOrigin.objects.filter(approval=approval, kind="person").exists()
    assert office.decide("ann", approval).status == 200


def test_a_permit_that_was_given_before(office: Office) -> None:
    """It passes the call unless its giver stands behind that."""
    office.execute("oscar", office.agent())
    token = claimed_token()
    approval = office.waiting_call(token)
    assert office.decide("ann", approval).status == 200
    with back_at("mcp", "0001_initial"):
        pass
    assert office.call(token).status == 200
