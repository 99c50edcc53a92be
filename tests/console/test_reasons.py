"""Reasons: a preset stands there from the start, and what somebody says themselves is not glued to it."""

import pytest
from playwright.sync_api import expect

from common.admin.forms import ReasonField
from tests.console.conftest import Visit, hub

pytestmark = pytest.mark.capability("CON-05", "CON-06")


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("It hangs", "It hangs"),
        ("It hangssince noon", "It hangs: since noon"),
        ("It hangs3 times", "It hangs: 3 times"),
        ("It hangs, since noon", "It hangs, since noon"),
        ("It hangs since noon", "It hangs since noon"),
        ("Wrong input", "Wrong input"),
        ("Since noon", "Since noon"),
    ],
)
def test_own_words_are_parted_from_a_preset_and_a_preset_stays_as_it_is(typed: str, kept: str) -> None:
    assert ReasonField("It hangs", "Wrong input").clean(typed) == kept


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
