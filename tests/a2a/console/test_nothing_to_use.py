"""Who may use no agent is offered nothing that needs one; who may use one is, by role, as an owner, or by a grant."""

import pytest

from nhi.actors import SYSTEM
from nhi.identities import lifecycle
from nhi.models import Identity, User
from tests.a2a.console.tasks import TASKS
from tests.console.conftest import SignedIn, identity
from tests.console.reading import main_of, text
from tests.supervisor.console import scene

pytestmark = [pytest.mark.capability("A2A-02", "SUP-09", "CON-05"), pytest.mark.django_db]
SCHEDULES = "/admin/supervisor/schedule/"
OFFERS = ((TASKS, f"{TASKS}send/"), (SCHEDULES, f"{SCHEDULES}add/"))


def offered(signed_in: SignedIn, name: str) -> list[bool]:
    client = signed_in(name)
    return [form in main_of(text(client, path)) for path, form in OFFERS]


def test_archived_agents_are_none_that_anyone_may_use(seeded: None, signed_in: SignedIn) -> None:
    scene.agent("sort", of="triage-bot")
    assert offered(signed_in, "tom") == [True, True]
    # Suspended, it may be used again.
    Identity.objects.filter(name="old-scraper").update(owner=User.objects.get(username="admin"))
    lifecycle.deprecate(actor=SYSTEM, identity=identity("triage-bot"), reason="Replaced")
    lifecycle.archive(actor=SYSTEM, identity=identity("triage-bot"), reason="Replaced")
    assert offered(signed_in, "tom") == [False, False]
    tom = signed_in("tom")
    assert [tom.get(form).status_code for _, form in OFFERS] == [403, 403]
    assert offered(signed_in, "mara") == [True, True]
