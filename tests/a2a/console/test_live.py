"""Tasks in a real browser: a page that is left open goes on by itself; and every page for everyone."""

import pytest

from a2a.choices import TaskState
from tests.a2a import rows
from tests.a2a.console.tasks import INBOXES, TABS, TASKS, page_of
from tests.console.axe import violations
from tests.console.conftest import NARROW, Visit, hub, identity

pytestmark = [pytest.mark.browser, pytest.mark.capability("A2A-02", "CON-05", "CON-06")]


@pytest.mark.parametrize(
    "options", [{}, {"viewport": NARROW, "color_scheme": "dark"}], ids=["light at 1280", "dark at 360"]
)
def test_find_a_task_watch_it_and_cancel_it_in_three_steps(visit: Visit, options: dict[str, object]) -> None:
    mara = visit(**options)
    plan = rows.sent(identity("planner"), task_type="plan")
    rows.claimed(plan)
    part = rows.sent(identity("writer"), source_agent_id=identity("planner").pk, parent_task_id=plan.pk)
    page = mara.page
    mara.open(TASKS)
    mara.step(page.get_by_role("link", name=plan.short_id))
    page.get_by_text("A worker of planner has it.").wait_for()
    rows.made(plan, {"steps": ["write", "<b>send</b>"]})
    page.get_by_role("region", name="Timeline").get_by_text("<b>send</b>").wait_for()
    found = violations(page)
    send = f"{TASKS}send/?to={plan.agent_id}"
    for path in (TASKS, INBOXES, send, hub("planner", "tasks/"), *(page_of(plan, tab) for tab in (*TABS, "cancel/"))):
        mara.open(path)
        page.wait_for_load_state("load")
        found += violations(page)
        assert page.evaluate("document.documentElement.scrollWidth == innerWidth"), path
    assert not found, "\n".join(found)
    mara.open(page_of(plan))
    page.get_by_text("More").click()
    found = violations(page)
    assert not found, "\n".join(found)
    page.get_by_role("button", name="Copy as curl: read it").click()
    page.get_by_role("button", name="Copied").wait_for()
    mara.step(page.get_by_role("link", name="Cancel"))
    page.get_by_role("dialog").get_by_text("Also cancels 1 task that is a part of it.").wait_for()
    mara.step(page.get_by_role("dialog").get_by_role("button", name=f"Cancel {plan}"))
    page.get_by_role("status").get_by_text(f"The {plan} is cancelled.").wait_for()
    assert mara.steps <= 3
    part.refresh_from_db()
    assert part.state == TaskState.CANCELED
    assert not mara.complaints
