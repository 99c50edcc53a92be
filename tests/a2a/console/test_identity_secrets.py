"""From an identity's credentials to what signs its callbacks."""

import pytest
from django.test import Client

from a2a import webhooks
from nhi import actors
from tests.console.conftest import SignedIn, hub, identity
from tests.supervisor.console.scene import main_of, text

pytestmark = [pytest.mark.capability("A2A-06", "CON-05"), pytest.mark.django_db]


def made(name: str, prefix: str = "") -> None:
    webhooks.make(actor=actors.identity(identity(name)), url_prefix=prefix)


@pytest.mark.both_databases
def test_its_credentials_lead_to_its_webhook_secrets(mara: Client) -> None:
    page = hub(tab="credentials/")
    assert "No webhook secret yet." in main_of(text(mara, page))
    made("deploy-bot")
    made("deploy-bot", "https://hooks.example.com/")
    made("writer")
    shown = main_of(text(mara, page))
    where = "/admin/a2a/webhooksecret/?owner=deploy-bot"
    assert f'<a href="{where}">2 webhook secrets of deploy-bot</a>' in shown
    assert len(mara.get(where).context["rows"]) == 2


def test_a_person_sees_those_that_the_list_shows_them(signed_in: SignedIn) -> None:
    made("writer")
    olga = signed_in("olga")
    shown = main_of(text(olga, hub("writer", "credentials/")))
    assert "1 webhook secret of writer" in shown
    assert len(olga.get("/admin/a2a/webhooksecret/?owner=writer").context["rows"]) == 1
