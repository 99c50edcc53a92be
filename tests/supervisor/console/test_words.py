"""One word for one thing: what closes a dialog is not called as what a dialog does."""

import pytest
from django.test import Client

from common.console.confirmation_dialogs import Dialog
from supervisor.models import Agent
from tests.console.conftest import hub
from tests.supervisor.console.scene import asked

pytestmark = [pytest.mark.django_db, pytest.mark.capability("CON-02")]


def kinds(of: type[Dialog]) -> set[type[Dialog]]:
    return {of}.union(*(kinds(kind) for kind in of.__subclasses__()))


def test_no_dialog_is_closed_by_a_button_that_says_cancel(mara: Client) -> None:
    """Tasks and runs are cancelled."""
    known = kinds(Dialog)
    assert len(known) > 30
    assert [kind.__name__ for kind in known if "ancel" in kind.leave] == []


def test_what_cancels_or_stops_offers_to_leave_it(mara: Client, ship: Agent) -> None:
    run = asked(ship)
    for path, words in (
        (f"/admin/supervisor/execution/{run.pk}/stop/", "Leave it"),
        (f"/admin/supervisor/execution/bulk/cancel/?id={run.pk}", "Leave them"),
        (f"{hub()}stop/", "Back"),
    ):
        page = mara.get(path)
        assert page.status_code == 200, path
        assert f"data-dialog-close>{words}</a>" in page.content.decode()


@pytest.mark.parametrize(
    "path",
    [
        "/admin/supervisor/agent/add/",
        "/admin/supervisor/schedule/add/",
        "/admin/mcp/server/add/",
        "/admin/nhi/identity/add/",
    ],
)
def test_a_form_is_left_by_back(mara: Client, path: str) -> None:
    page = mara.get(path, follow=True).content.decode()
    assert ">Back</a>" in page
    assert ">Cancel</a>" not in page


def test_what_runs_is_a_program_or_a_model_where_agents_are_identities_too(mara: Client, ship: Agent) -> None:
    assert "Programs and models that run as deploy-bot" in mara.get(f"{hub()}runs/").content.decode()
    assert "<h1>Add program or model</h1>" in mara.get("/admin/supervisor/agent/add/").content.decode()
