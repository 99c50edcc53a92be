"""The journeys of the foundation, each within its number of steps, from Home signed in."""

import re

import pytest

from nhi.choices import State
from nhi.models import Credential, ToolPermission
from tests.console.conftest import Visit, identity

pytestmark = [pytest.mark.browser, pytest.mark.capability("CON-05")]


def test_give_access_in_six_steps(visit: Visit) -> None:
    mara = visit()
    page = mara.page
    mara.open("/admin/")
    mara.find("triage-bot")
    mara.step(page.get_by_role("option", name="triage-bot Agent, active"))
    mara.step(page.get_by_role("link", name="Give access"))
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Pattern", exact=True).fill("github.*")
    mara.steps += 1  # the pick
    dialog.get_by_text(re.compile(r"Adds \d+ grants?, \d+ exist already, 0 refused")).wait_for()
    mara.step(dialog.get_by_text("30 days"))
    mara.step(dialog.get_by_role("button", name="Give access"))
    page.get_by_text(re.compile(r"triage-bot was given \d+ grant")).wait_for()
    assert mara.steps <= 6
    given = ToolPermission.objects.live().filter(agent__name="triage-bot", tool__name__startswith="github__")
    assert given.count() == 3
    assert not mara.complaints


def test_a_new_agent_with_a_working_token_in_seven_steps(visit: Visit) -> None:
    mara = visit()
    page = mara.page
    mara.open("/admin/")
    mara.step(page.get_by_role("link", name="All identities"))
    mara.step(page.get_by_role("link", name="Add agent"))
    page.get_by_label("Name", exact=True).fill("release-bot")
    page.get_by_label("Purpose").fill("Cuts releases")
    mara.step(page.get_by_role("button", name="Create and activate"))
    mara.step(page.get_by_role("link", name="Issue credential"))
    mara.step(page.get_by_role("dialog").get_by_role("button", name="Issue"))
    token = page.locator("#gh-token").inner_text()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    mara.step(page.get_by_role("button", name="Copy", exact=True))
    assert page.evaluate("navigator.clipboard.readText()") == token
    mara.step(page.get_by_role("link", name="I have saved it"))
    page.wait_for_url("**/credentials/")
    assert mara.steps <= 7
    assert token not in page.content()
    answer = page.context.request.get(f"{mara.base}/api/nhi/me", headers={"Authorization": f"Bearer {token}"})
    assert answer.json()["name"] == "release-bot"
    assert identity("release-bot").owner.username == "mara"


def test_rotate_without_an_outage_in_four_steps(visit: Visit) -> None:
    mara = visit()
    page = mara.page
    mara.open("/admin/")
    mara.find("triage-bot")
    mara.step(page.get_by_role("option", name="triage-bot Agent, active"))
    mara.step(page.get_by_label("Parts of this page").get_by_role("link", name="Credentials"))
    mara.step(page.get_by_role("link", name="Rotate"))
    mara.step(page.get_by_role("dialog").get_by_role("button", name="Rotate"))
    page.get_by_role("heading", name="The new credential of triage-bot").wait_for()
    assert mara.steps <= 4
    assert Credential.objects.live().filter(identity__name="triage-bot").count() == 2


def test_stop_in_three_steps(visit: Visit) -> None:
    mara = visit()
    page = mara.page
    mara.open("/admin/")
    mara.find("stop triage")
    mara.step(page.get_by_role("option", name="Stop triage-bot now…"))
    assert page.get_by_role("textbox", name="Reason").input_value() == "Emergency stop"
    mara.step(page.get_by_role("button", name="Suspend triage-bot and stop 1 thing"))
    page.get_by_role("heading", name="triage-bot is stopped").wait_for()
    page.get_by_text("1 credential refused").wait_for()
    assert mara.steps <= 3
    assert identity("triage-bot").state == State.SUSPENDED
