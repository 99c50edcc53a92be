"""Grants, roles and explain in a real browser: axe, 360 px, dialogs over their pages, names offered while typing."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from nhi.access import roles
from nhi.actors import SYSTEM
from nhi.models import Role, RoleCapability, ToolPermission
from tests.console.axe import violations
from tests.console.conftest import NARROW, Visit, identity
from tests.console.grants import at, tool_grant

pytestmark = [pytest.mark.browser, pytest.mark.capability("CON-05", "CON-06")]


def addresses() -> list[str]:
    """Every page of this part, at rest and narrowed, and its dialogs as pages of their own."""
    kinds = ("toolpermission", "nhipermission", "userpermission", "roleassignment")
    one, reader = f"{tool_grant().pk}/", Role.objects.get(name="reader")
    waits = RoleCapability.objects.get(pattern="*.*")
    return [
        *(at(kind) for kind in kinds),
        *(at(kind, "give/") for kind in kinds),
        at("toolpermission", server="nowhere"),
        *(at("toolpermission", one + verb) for verb in ("", "revoke/", "renew/", "copy/", "limits/")),
        f"{at('toolpermission', 'bulk/revoke/')}?id={tool_grant().pk}",
        at("toolpermission", "many/"),
        at("role"),
        at("role", "add/"),
        at("role", f"{reader.pk}/", open="jira.search"),
        at("role", f"{reader.pk}/change/"),
        at("role", f"{waits.role_id}/"),
        "/admin/explain/",
        "/admin/explain/?caller=triage-bot&target=github__create_issue",
        "/admin/explain/?caller=deploy-bot&target=github__create_issue",
        "/admin/explain/?caller=writer&target=writer&at=2000-01-01T00:00",
    ]


@pytest.mark.parametrize(
    "options", [{}, {"viewport": NARROW, "color_scheme": "dark"}], ids=["light at 1280", "dark at 360"]
)
def test_axe_finds_nothing_and_nothing_scrolls_sideways(visit: Visit, options: dict[str, object]) -> None:
    roles.assign(actor=SYSTEM, role=Role.objects.get(name="reader"), identity=identity("triage-bot"))
    mara = visit("mara", **options)
    found = []
    for path in addresses():
        page = mara.settled(path)
        found += violations(page)
        width = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert width == 0, path
    assert not found, "\n".join(found)
    assert not mara.complaints
    assert all(url.startswith(mara.base) for url in mara.requests)


def tick_and_revoke(page: Page) -> None:
    page.get_by_role("checkbox", name="Tick all rows of this page").check()
    page.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("textbox", name="Reason").wait_for()


def give_wrongly(page: Page) -> None:
    page.get_by_role("link", name="Give access").click()
    page.get_by_role("dialog").get_by_role("button", name="Give access").click()
    page.get_by_role("alert").wait_for()


def unfold_limits(page: Page) -> None:
    page.get_by_role("link", name="Give access").click()
    page.get_by_role("dialog").get_by_text("Limits", exact=True).click()


@pytest.mark.parametrize("options", [{}, {"viewport": NARROW, "color_scheme": "dark"}], ids=["light", "dark at 360"])
@pytest.mark.parametrize("reach", [tick_and_revoke, give_wrongly, unfold_limits])
def test_axe_finds_nothing_in_what_opens(
    visit: Visit, reach: Callable[[Page], None], options: dict[str, object]
) -> None:
    mara = visit("mara", **options)
    page = mara.settled(at("toolpermission"))
    reach(page)
    assert not violations(page)


def test_names_are_offered_while_one_types_and_the_grant_is_given(visit: Visit) -> None:
    mara = visit()
    page = mara.settled(at("toolpermission"))
    mara.step(page.get_by_role("link", name="Give access"))
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Agent").fill("wri")
    expect(page.locator("datalist option[value=writer]")).to_have_count(1)
    dialog.get_by_label("Agent").fill("writer")
    dialog.get_by_label("Tool").fill("jira__edit")
    mara.step(dialog.get_by_role("button", name="Give access"))
    page.get_by_role("heading", name="writer → jira__edit").wait_for()
    assert mara.steps == 2
    assert not mara.complaints


def test_revoke_one_grant_from_the_list_in_three_steps(visit: Visit) -> None:
    mara = visit()
    page = mara.settled(at("toolpermission"))
    mara.step(page.get_by_role("link", name=re.compile("deploy-bot.*github__create_issue")))
    mara.step(page.get_by_role("link", name="Revoke"))
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("deploy-bot may no longer call github__create_issue")
    mara.step(dialog.get_by_role("button", name="Revoke deploy-bot → github__create_issue"))
    page.get_by_text("Revoked: deploy-bot → github__create_issue.").wait_for()
    assert mara.steps == 3
    assert not ToolPermission.objects.live().filter(agent__name="deploy-bot").exists()


def test_the_effect_of_new_patterns_stands_there_while_one_types(visit: Visit) -> None:
    mara = visit()
    page = mara.settled(at("role", f"{Role.objects.get(name='reader').pk}/"))
    mara.step(page.get_by_role("link", name="Change patterns"))
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Patterns").fill("github.*")
    expect(dialog).to_contain_text("Adds 2 tools for 2 identities")
    expect(dialog).to_contain_text("Removes 1 tool for 2 identities")
    mara.step(dialog.get_by_role("button", name="Change reader"))
    page.get_by_text("Changed the role reader.").wait_for()
    assert mara.steps == 2
    assert not mara.complaints


def test_many_grants_in_a_preview_and_a_yes(visit: Visit) -> None:
    mara = visit()
    page = mara.settled(at("toolpermission"))
    mara.step(page.get_by_role("link", name="Give many"))
    page.get_by_label("Agents", exact=True).fill("writer")
    adding = page.get_by_label("Add to agents")
    adding.fill("plan")
    expect(page.locator("datalist option[value=planner]")).to_have_count(1)
    adding.fill("planner")
    adding.press("Enter")
    expect(page.get_by_label("Agents", exact=True)).to_have_value("writer\nplanner")
    page.get_by_label("Pattern", exact=True).fill("github.*")
    mara.step(page.get_by_role("button", name="Preview"))
    page.get_by_text("6 of 6 would be added.").wait_for()
    assert not violations(page)
    mara.step(page.get_by_role("button", name="Give 6 grants"))
    page.get_by_role("heading", name="6 grants were given, 0 not").wait_for()
    assert mara.steps == 3


def test_from_a_grant_to_why_and_what_to_do(visit: Visit) -> None:
    """An answer with its way on, two steps from the grant."""
    mara = visit()
    page = mara.settled(at("toolpermission", f"{tool_grant('old-scraper', 'jira__search').pk}/"))
    mara.step(page.get_by_role("link", name="Why may or may not this call pass now?"))
    page.get_by_role("heading", name="Why may old-scraper not call jira__search?").wait_for()
    mara.step(page.get_by_role("link", name="Open old-scraper"))
    page.get_by_role("heading", name="old-scraper").wait_for()
    assert mara.steps == 2
