"""A run in a real browser: asked for, watched and stopped in four steps; and every page for everyone."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

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
    kept = page.locator("[data-amount]")
    page.get_by_role("log").get_by_text("sec", exact=True).wait_for()
    expect(kept).to_have_text("Output: 9 B of 1.0 MiB")
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


def test_an_open_list_shows_by_itself_how_a_run_ended(visit: Visit) -> None:
    mara, ship = visit(), scene.agent("ship")
    run = scene.asked(ship)
    row = mara.settled(RUNS).locator("tr", has_text="ship #1")
    row.get_by_text("Queued").wait_for()
    scene.ended(run)
    row.get_by_text("Completed").wait_for()
    assert not mara.complaints


def test_ticked_runs_are_cancelled_in_a_dialog_over_their_list(visit: Visit) -> None:
    mara, ship = visit(), scene.agent("ship")
    for _ in range(3):
        scene.asked(ship)
    page = mara.page
    mara.open(RUNS)
    page.get_by_label("Tick ship #3").check()
    page.get_by_label("Tick ship #1").check()
    page.get_by_role("button", name="Cancel", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Cancel 2 runs").wait_for()
    assert violations(page) == []
    dialog.get_by_role("button", name="Cancel 2 runs").click()
    dialog.get_by_text("Cancel: 2 of 2 done").wait_for()
    assert violations(page) == []
    dialog.get_by_role("link", name="Done").click()
    page.locator("tr", has_text="ship #3").get_by_text("Cancelled").wait_for()
    assert list(Execution.objects.open()) == [Execution.objects.get(number=2)]
    assert not mara.complaints


def test_input_is_copied_whole_from_under_more_and_from_its_tab(visit: Visit) -> None:
    mara = visit(permissions=["clipboard-read", "clipboard-write"])
    short, long = "Ship it.\n\u202eNow.", "x" * 30_000
    page, ship = mara.page, scene.agent("ship")
    for said in (short, long):
        run = scene.ended(scene.asked(ship, said))
        mara.open(f"{RUNS}{run.pk}/")
        page.locator(".gh-menu--btn > summary").click()
        page.locator(".gh-menu--btn").get_by_text("Copy input").click()
        if said == long:
            page.get_by_role("button", name="Copy input").click()
        page.get_by_text("Copied", exact=True).wait_for()
        assert page.evaluate("navigator.clipboard.readText()") == said
    assert not mara.complaints


def test_failures_are_marked_as_seen_by_one_press(visit: Visit) -> None:
    mara = visit()
    scene.ended(scene.asked(scene.agent("ship")), scene.S.FAILED, why="It broke.")
    page = mara.page
    mara.open("/admin/")
    badge = page.get_by_role("navigation", name="Main").get_by_role("link", name="1 need you: Executions")
    mara.step(badge)
    page.get_by_role("link", name="ship #1").wait_for()
    mara.step(page.get_by_role("button", name="Mark all as seen"))
    page.get_by_text("What went wrong until then is marked as seen by you.").wait_for()
    expect(badge).to_have_count(0)
    page.get_by_role("link", name="ship #1").wait_for()
    assert mara.steps == 2
    assert not mara.complaints


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
        *(f"{RUNS}bulk/{verb}/?id={done.pk}&id={waiting.pk}" for verb in ("cancel", "again")),
        f"{RUNS}?state=wrong&span=24h&seen=no", f"{RUNS}seen/?until=2026-11-18T12:00:00Z", f"{RUNS}?agent=nobody",
        "/admin/supervisor/session/", "/admin/supervisor/schedule/",
    ]  # fmt: skip
    found = []
    for path in paths:
        mara.open(path)
        mara.page.wait_for_load_state("load")
        found += violations(mara.page)
        assert mara.page.evaluate("document.documentElement.scrollWidth == innerWidth"), path
    assert not found, "\n".join(found)
    assert not mara.complaints
