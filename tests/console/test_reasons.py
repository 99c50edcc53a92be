"""Reasons: a preset stands there from the start, and what somebody types themselves is recorded as they typed it."""

import pytest
from django.test import Client
from playwright.sync_api import expect

from nhi.actors import SYSTEM
from nhi.identities import lifecycle
from nhi.models import AuditEvent
from tests.console.conftest import Visit, hub, identity

pytestmark = pytest.mark.capability("CON-05", "CON-06")


@pytest.mark.parametrize(
    "typed", ["Problem solved", "Problem solvedness", "Problem solved2", "Problem solved, by tom", "Ready for users"]
)
def test_what_was_typed_is_what_is_recorded(typed: str, mara: Client) -> None:
    """Also where it begins with the letters of a preset: nobody wrote what could be made of it."""
    lifecycle.suspend(actor=SYSTEM, identity=identity("writer"), reason="For the test")
    path = hub("writer", "activate/")
    assert {"Problem solved", "Ready for use"} <= set(mara.get(path).context["form"].fields["reason"].presets)
    assert mara.post(path, {"seen": "", "reason": typed}).status_code == 302
    assert AuditEvent.objects.filter(reason=typed, actor_name="mara").count() == 1


@pytest.mark.browser
def test_what_is_typed_takes_the_place_of_a_preset_that_nobody_touched(visit: Visit) -> None:
    mara = visit()
    page = mara.page
    mara.open(hub("deploy-bot"))
    page.get_by_role("link", name="Stop now").click()
    reason = page.get_by_role("dialog").get_by_role("textbox", name="Reason")
    expect(reason).to_have_value("Emergency stop")
    reason.click()
    page.keyboard.type("It answers nobody")
    expect(reason).to_have_value("It answers nobody")
    # Once somebody has written there, a click only places the cursor.
    reason.click()
    page.keyboard.press("End")
    page.keyboard.type(" since noon")
    expect(reason).to_have_value("It answers nobody since noon")
    assert not mara.complaints
