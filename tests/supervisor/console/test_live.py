"""A run in a real browser: asked for, watched and stopped in four steps; and every page for everyone."""

from collections.abc import Callable

import pytest

from supervisor.models import Agent, Execution
from supervisor.runner.service import Service
from tests.console.axe import violations
from tests.console.conftest import NARROW, Visit, identity
from tests.supervisor.console import scene
from tests.supervisor.console.scene import AGENT_TABS, AGENTS, QUEUE, RUN_TABS, RUNS
from tests.supervisor.waiting import until_over

pytestmark = [pytest.mark.browser, pytest.mark.capability("SUP-10", "CON-05")]
MakeAgent = Callable[..., Agent]
#: Writes and goes on until it is stopped, or let go by the line that it waits for.
SPEAKS = '#!/bin/sh\nprintf "\\033[31mCloning\\033[0m acme/site\\n"\nprintf "a<b>c\\n" >&2\nexec sleep 300\n'


def test_run_watch_and_stop_in_four_steps(visit: Visit, make_agent: MakeAgent, runner: Service) -> None:
    mara = visit()
    make_agent(SPEAKS, name="ship", identity=identity("deploy-bot"), timeout=300)
    page = mara.page
    mara.open(AGENTS)
    mara.step(page.get_by_role("link", name="Run ship", exact=True))
    page.get_by_label("Input").fill("main")
    mara.step(page.get_by_role("button", name="Run ship"))
    page.get_by_role("log").get_by_text("Cloning acme/site", exact=True).wait_for()
    page.get_by_role("log").get_by_text("a<b>c", exact=True).wait_for()
    mara.step(page.get_by_role("link", name="Stop"))
    mara.step(page.get_by_role("dialog").get_by_role("button", name="Stop ship #1"))
    page.get_by_label("Phases").get_by_text("Cancelled").wait_for()
    page.get_by_role("link", name="Run again").wait_for()
    assert mara.steps <= 4
    assert until_over(Execution.objects.get()).status == "cancelled"
    page.get_by_text("2 lines, 1 of errors.", exact=True).wait_for()
    assert not mara.complaints


def test_a_page_that_is_left_open_goes_on_where_it_was_and_shows_each_piece_once(visit: Visit) -> None:
    mara = visit()
    run = scene.started(scene.asked(scene.agent("ship")))
    scene.wrote(run, 1, "first\nsec")
    page = mara.page
    mara.open(f"{RUNS}{run.pk}/")
    lines = page.locator(".gh-line-text")
    page.get_by_role("log").get_by_text("sec", exact=True).wait_for()
    page.get_by_role("button", name="Pause").click()
    scene.wrote(run, 2, "ond\nthird\n")
    page.get_by_role("button", name="1 pieces came meanwhile, go on").click()
    page.get_by_role("log").get_by_text("third", exact=True).wait_for()
    assert lines.all_text_contents() == ["first", "second", "third"]
    page.get_by_placeholder("Find").fill("SEC")
    page.get_by_text("Line 1 of 1 that hold it.").wait_for()
    page.reload()
    page.get_by_role("log").get_by_text("third", exact=True).wait_for()
    assert lines.all_text_contents() == ["first", "second", "third"]


@pytest.mark.capability("CON-06")
@pytest.mark.parametrize(
    "options", [{}, {"viewport": NARROW, "color_scheme": "dark"}], ids=["light at 1280", "dark at 360"]
)
def test_axe_finds_nothing_and_nothing_scrolls_sideways(visit: Visit, options: dict[str, object]) -> None:
    mara = visit(**options)
    ship = scene.agent("ship", access_type="read-write", allowed_env_vars=["DRY_RUN"])
    done = scene.ended(scene.asked(ship), scene.S.FAILED, why="It broke.")
    scene.started(scene.asked(ship))
    waiting = scene.asked(ship)
    hub, run = f"{AGENTS}{ship.pk}/", f"{RUNS}{done.pk}/"
    paths = [
        AGENTS, RUNS, QUEUE, f"{AGENTS}add/", *(hub + tab for tab in (*AGENT_TABS, "change/", "run/", "off/")),
        *(run + tab for tab in RUN_TABS), f"{RUNS}{waiting.pk}/", f"{RUNS}{waiting.pk}/stop/",
        f"/admin/nhi/identity/{ship.identity_id}/runs/", "/admin/runs/charts/",
    ]  # fmt: skip
    found = []
    for path in paths:
        mara.open(path)
        mara.page.wait_for_load_state("load")
        found += violations(mara.page)
        assert mara.page.evaluate("document.documentElement.scrollWidth == innerWidth"), path
    assert not found, "\n".join(found)
    assert not mara.complaints
