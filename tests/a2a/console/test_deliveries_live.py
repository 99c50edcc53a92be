"""Deliveries in a real browser: dead letters are sent again in four steps; and every page for everyone."""

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from a2a import webhooks
from a2a.choices import DeliveryState, TaskState
from a2a.models import Delivery, WebhookSecret
from nhi import actors
from nhi.models import User
from tests.a2a import rows
from tests.a2a.console import scene
from tests.a2a.console.deliveries import LIST, SECRETS, TABS, VERBS, page_of
from tests.a2a.console.tasks import CHARTS
from tests.console.axe import violations
from tests.console.conftest import NARROW, Visit, hub, identity
from tests.supervisor.console import scene as runs

pytestmark = [pytest.mark.browser, pytest.mark.capability("A2A-06", "CON-02", "CON-05", "CON-06")]
LONG = f"{scene.URL}/{'a-very-long-path-of-a-receiver/' * 4}"


def test_redeliver_dead_letters_in_four_steps_and_rotate_what_signs_them(visit: Visit) -> None:
    olga = visit("olga")
    writer, page = identity("writer"), olga.page
    rows = [scene.given_up(writer, url=url) for url in (scene.OTHER, scene.OTHER, scene.URL)]
    heard = scene.heard(writer)
    olga.open("/admin/")
    olga.step(page.get_by_role("navigation").locator(f'a[href="{LIST}?state=dead"]'))
    olga.step(page.get_by_role("checkbox", name="All in this filter"))
    page.get_by_text("All ticked, on every page").wait_for()
    olga.step(page.get_by_role("button", name="Redeliver"))
    olga.step(page.get_by_role("dialog").get_by_role("button", name="Redeliver 3 deliveries to 2 endpoints"))
    page.get_by_role("status").get_by_text("3 deliveries are being made again.").wait_for()
    assert olga.steps <= 4
    assert set(Delivery.objects.pending()) == set(rows)
    heard.refresh_from_db()
    assert heard.state == DeliveryState.DELIVERED
    mara = visit("mara")
    mara.open(SECRETS)
    mara.page.get_by_role("link", name="Rotate the webhook secret").click()
    mara.page.get_by_role("dialog").get_by_role("button", name="Rotate").click()
    assert mara.page.locator("#gh-token").inner_text().startswith("whsec_")
    assert not violations(mara.page)
    assert not olga.complaints + mara.complaints


def test_who_types_a_prefix_reads_what_else_signs_its_urls(visit: Visit) -> None:
    mara, writer = visit(), identity("writer")
    webhooks.make(actor=actors.person(User.objects.get(username="mara")), url_prefix="", holder=writer)
    Delivery.objects.filter(pk=scene.told(writer).pk).update(owner_id=writer.pk)
    mara.open(SECRETS)
    mara.page.get_by_role("link", name="Make a secret").click()
    dialog = mara.page.get_by_role("dialog")
    dialog.get_by_label("Whose").fill("writer")
    dialog.get_by_label("Signs for URLs").fill(scene.URL)
    dialog.get_by_role("status").get_by_text("are also signed by the one for any URL until").wait_for()
    assert not violations(mara.page)
    dialog.get_by_role("button", name="Make secret").click()
    mara.page.get_by_text("the one for any URL, until").wait_for()
    assert not mara.complaints


def test_after_a_leak_the_one_before_is_revoked_and_then_the_secret_removed(visit: Visit) -> None:
    mara, row = visit(), scene.told(identity("writer"))
    webhooks.rotate(actor=actors.person(User.objects.get(username="mara")), secret=WebhookSecret.objects.get())
    mara.open(SECRETS)
    for verb, effect in (
        ("Revoke the one before", "1 delivery that waits is signed by the present one alone"),
        ("Remove", "1 delivery that waits is signed by a new one for any URL"),
    ):
        mara.page.get_by_role("link", name=f"{verb} the webhook secret").click()
        dialog = mara.page.get_by_role("dialog")
        dialog.get_by_text(effect).wait_for()
        dialog.get_by_role("button", name=verb).click()
        mara.page.get_by_role("status").get_by_text("the webhook secret of mara for any URL").wait_for()
        expect(mara.page.get_by_role("link", name=f"{verb} the webhook secret")).to_have_count(0)
    assert not WebhookSecret.objects.filter(owner_id=row.owner_id).exists()
    assert not mara.complaints


def test_an_open_page_shows_an_attempt_as_it_is_made(visit: Visit) -> None:
    mara = visit()
    row = scene.retried(identity("writer"))
    mara.open(page_of(row))
    mara.page.get_by_text("Retry 3 of 10").wait_for()
    of_task = visit()
    of_task.open(f"/admin/a2a/task/{row.task_id}/deliveries/")
    listed = of_task.page.locator('[data-fresh="deliveries"]')
    listed.get_by_text("Retry 3 of 10").first.wait_for()
    heard = {"state": DeliveryState.DELIVERED, "reason": "", "next_at": None, "delivered_at": timezone.now()}
    Delivery.objects.filter(pk=row.pk).update(attempts=3, last_status=204, **heard)
    expect(mara.page.locator('[data-fresh="strip"]').get_by_text("Delivered").first).to_be_visible(timeout=10_000)
    expect(mara.page.locator('[data-fresh="tabs"]').get_by_role("link", name="Attempts")).to_contain_text("3")
    # The task has ended; what is told of it has not.
    expect(listed.get_by_text("Delivered").first).to_be_visible(timeout=10_000)
    expect(mara.page.get_by_text("Retry 3 of 10")).to_have_count(0)
    assert not mara.complaints + of_task.complaints


def test_what_stands_under_more_stays_on_a_narrow_page(visit: Visit) -> None:
    writer = identity("writer")
    waits = rows.moved(rows.moved(rows.sent(writer), TaskState.WORKING), TaskState.INPUT_REQUIRED)
    run = runs.asked(runs.agent("ship"))
    mara = visit(viewport=NARROW)
    for path in (
        f"/admin/a2a/task/{waits.pk}/",
        page_of(scene.given_up(writer)),
        f"/admin/supervisor/execution/{run.pk}/",
        hub(),
    ):
        mara.open(path)
        mara.page.locator("#gh-more > summary").click()
        box = mara.page.locator("#gh-more > ul").bounding_box()
        assert box, path
        assert box["x"] >= 0, path
        assert box["x"] + box["width"] <= 360, path
        assert mara.page.evaluate("document.documentElement.scrollWidth") == 360, path


def test_a_box_to_tick_stands_beside_what_it_ticks_on_a_narrow_page(visit: Visit) -> None:
    runs.asked(runs.agent("ship"))
    mara = visit(viewport=NARROW)
    mara.open(runs.RUNS)
    tick, name = (mara.page.locator(f"[data-row] {one}").first.bounding_box() for one in ("[data-tick]", ".gh-rowlink"))
    assert tick
    assert name
    assert tick["x"] + tick["width"] <= name["x"]
    assert tick["y"] < name["y"] + name["height"]
    assert name["y"] < tick["y"] + tick["height"]


@pytest.mark.parametrize(
    "options", [{}, {"viewport": NARROW, "color_scheme": "dark"}], ids=["light at 1280", "dark at 360"]
)
def test_axe_finds_nothing_on_any_of_their_pages(visit: Visit, options: dict[str, object]) -> None:
    mara, found = visit(**options), []
    writer = identity("writer")
    scene.of_each(writer)
    row = scene.given_up(writer, url=LONG)
    webhooks.rotate(actor=actors.person(User.objects.get(username="mara")), secret=WebhookSecret.objects.get())
    secret = WebhookSecret.objects.get()
    bulk = [f"{LIST}bulk/{verb}/?all=1" for verb in ("redeliver", "stop")]
    pages = [
        LIST,
        SECRETS,
        f"{SECRETS}{secret.pk}/rotate/",
        f"{SECRETS}{secret.pk}/revoke-previous/",
        f"{SECRETS}{secret.pk}/remove/",
        f"{SECRETS}make/",
        CHARTS,
        *bulk,
        f"/admin/a2a/task/{row.task_id}/deliveries/",
        f"/admin/a2a/task/{row.task_id}/redeliver/",
    ]
    pages += [page_of(row, tab) for tab in (*TABS, *VERBS)] + [hub("writer", "connect/"), "/admin/a2a/task/"]
    for path in pages:
        mara.settled(path)
        for answer in mara.page.locator(".gh-answer summary").all():
            answer.click()
        found += violations(mara.page)
        assert mara.page.evaluate("document.documentElement.scrollWidth == innerWidth"), path
    assert not found, "\n".join(found)
    assert not mara.complaints
