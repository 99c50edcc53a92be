"""What cannot be started now is not offered as if it could: wherever a run begins, the reason stands there."""

import re

import pytest
from django.test import Client

from nhi.actors import SYSTEM
from nhi.identities import lifecycle
from supervisor import schedules
from supervisor.models import Agent
from tests.console.conftest import SignedIn, identity
from tests.supervisor.console import scene
from tests.supervisor.console.scene import AGENTS, RUNS, main_of, text

pytestmark = [pytest.mark.capability("CON-02", "SUP-10"), pytest.mark.django_db]


def blocked(client: Client, path: str) -> dict[str, str]:
    """Buttons that are drawn disabled, with the reason under each."""
    html = main_of(text(client, path))
    found = re.findall(r'gh-blocked"><button[^>]*disabled.*?</span>([^<]*)</button><span[^>]*>([^<]*)<', html)
    return dict(found)


@pytest.mark.both_databases
def test_a_run_of_a_suspended_agent_is_not_run_again(ship: Agent, signed_in: SignedIn) -> None:
    run = scene.ended(scene.asked(ship))
    olga = signed_in("olga")
    page = f"{RUNS}{run.pk}/"
    assert blocked(olga, page) == {}
    assert f"?like={run.pk}" in text(olga, page)
    lifecycle.suspend(actor=SYSTEM, identity=identity(), reason="Leaked token")
    assert blocked(olga, page) == {"Run again": "Its agent&#x27;s identity is suspended."}
    assert f"?like={run.pk}" not in text(olga, page)
    bulk = olga.get(f"{RUNS}bulk/again/?id={run.pk}")
    assert bulk.context["skipped"] == [f"{run}: is of an agent whose identity is suspended"]


def test_nor_one_of_an_agent_that_is_switched_off(ship: Agent, mara: Client) -> None:
    run = scene.ended(scene.asked(ship))
    Agent.objects.filter(pk=ship.pk).update(enabled=False)
    assert blocked(mara, f"{RUNS}{run.pk}/") == {"Run again": "Its agent is switched off."}


def test_the_list_says_why_instead_of_a_button(ship: Agent, mara: Client) -> None:
    assert ">Run<" in main_of(text(mara, AGENTS))
    lifecycle.suspend(actor=SYSTEM, identity=identity(), reason="Leaked token")
    shown = main_of(text(mara, AGENTS))
    assert ">Run<" not in shown
    assert '<span class="gh-subtle">suspended</span>' in shown


def test_nor_is_a_schedule_run_out_of_turn(ship: Agent, mara: Client) -> None:
    given = {"name": "nightly", "cron_expression": "0 3 * * *"}
    schedule = schedules.create(actor=SYSTEM, agent=ship, given=given, inputs={"input": "Ship it."})
    page = f"/admin/supervisor/schedule/{schedule.pk}/"
    assert "Run now" not in blocked(mara, page)
    lifecycle.suspend(actor=SYSTEM, identity=identity(), reason="Leaked token")
    assert blocked(mara, page)["Run now"] == "Its agent&#x27;s identity is suspended."
    assert "Its agent&#x27;s identity is suspended." in main_of(text(mara, f"{page}run/"))
