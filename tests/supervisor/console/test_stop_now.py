"""What "Stop now" of an identity says of its runs: those that run end, those that wait never begin."""

import pytest
from django.test import Client

from supervisor.models import Agent
from tests.supervisor.console import scene
from tests.supervisor.console.scene import text

pytestmark = [pytest.mark.capability("NHI-03", "SUP-10"), pytest.mark.django_db(transaction=True)]


def test_runs_and_what_waits_are_told_apart_before_and_after(ship: Agent, mara: Client) -> None:
    scene.started(scene.asked(ship))
    for _ in range(2):
        scene.asked(ship)
    stop = f"/admin/nhi/identity/{ship.identity_id}/stop/"
    dialog = mara.get(stop)
    said = dialog.content.decode()
    assert "Ends 1 run<" in said
    assert "Takes 2 runs from the queue<" in said
    done = mara.post(stop, {"reason": "Leaked token", "seen": dialog.context["seen"]}).content.decode()
    assert "1 run asked to end" in done
    assert "2 runs taken from the queue" in done


def test_what_only_waits_is_not_said_to_end(ship: Agent, mara: Client) -> None:
    scene.asked(ship)
    page = text(mara, f"/admin/nhi/identity/bulk/suspend/?id={ship.identity_id}")
    assert "Takes 1 run from the queue<" in page
    assert "Ends " not in page
