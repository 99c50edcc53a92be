"""The A2A server behind an agent is tested at the console, by one press of who may."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from a2a import runtimes
from nhi.actors import SYSTEM
from nhi.models import AuditEvent, Identity
from tests.a2a.remote.far_side import FarSide, error, far_side, status
from tests.console.axe import violations
from tests.console.conftest import SignedIn, Visit, hub, identity
from tests.services import gateway
from tests.supervisor.console.scene import main_of, text

pytestmark = [pytest.mark.capability("A2A-07", "CON-05"), pytest.mark.django_db]
UNKNOWN = error(-32001, "Task not found")


def tab() -> str:
    return hub("triage-bot", "tasks/")


def button() -> str:
    return hub("triage-bot", "runtime/test/")


@pytest.fixture
def bot(seeded: None) -> Identity:
    return identity("triage-bot")


@pytest.fixture
def far(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[FarSide]:
    # A browser's loop runs in this thread.
    monkeypatch.setattr("a2a.runtime_checks.look_up", lambda _url: None)
    with far_side() as made:
        settings.EGRESS_ALLOW = settings.EGRESS_ALLOW | {made.place}
        yield made
    gateway.end()


@pytest.fixture
def behind(bot: Identity, far: FarSide) -> FarSide:
    return put_behind(far)


def put_behind(far: FarSide) -> FarSide:
    remote = {"kind": "remote", "url": far.url, "scheme": "Bearer", "credential": "s3cret-value"}
    runtimes.choose(actor=SYSTEM, identity=identity("triage-bot"), **remote)
    return far


def test_what_was_found_is_said_in_plain_words(behind: FarSide, mara: Client) -> None:
    behind.on["GetTask"] = [UNKNOWN, status(401)]
    assert button() in main_of(text(mara, tab()))
    pressed = mara.post(button(), follow=True)
    assert pressed.redirect_chain == [(tab(), 302)]
    said = pressed.content.decode()
    assert (
        f"“far” was tested. It answers in A2A 1.0 over JSON-RPC at {behind.url}/rpc. It takes our credential." in said
    )
    said = mara.post(button(), follow=True).content.decode()
    assert "“far” was tested. The remote agent refused our credentials (401)." in said
    assert "See that the credential is the right one" in said and "s3cret" not in said
    changes = text(mara, hub("triage-bot", "changes/"))
    assert "tested the A2A server behind" in main_of(changes)


def test_opening_its_page_asks_nothing(behind: FarSide, mara: Client) -> None:
    assert "Nothing is sent that it would work on." in text(mara, button())
    assert behind.requests == []


def test_only_who_may_tests(behind: FarSide, signed_in: SignedIn) -> None:
    for name in ("tom", "olga", "ada"):
        assert button() not in main_of(text(signed_in(name), tab())), name
        assert signed_in(name).post(button()).status_code == 403, name
    assert behind.requests == []
    assert signed_in("mara").post(hub("ci", "runtime/test/")).status_code == 404


def test_there_is_nothing_to_test_where_no_server_is(bot: Identity, mara: Client) -> None:
    assert button() not in main_of(text(mara, tab()))
    assert "none to test" in text(mara, button())
    refused = mara.post(button())
    assert (refused.status_code, "none to test" in refused.content.decode()) == (409, True)
    assert not AuditEvent.objects.filter(event="runtime.tested").exists()


@pytest.mark.browser
def test_a_test_is_one_press_and_its_answer_stands_on_the_page(visit: Visit, far: FarSide) -> None:
    put_behind(far).on["GetTask"] = [UNKNOWN]
    mara = visit("mara")
    page = mara.settled(tab())
    assert not violations(page)
    page.get_by_role("button", name="Test now").click()
    page.get_by_text("It takes our credential.").wait_for()
    assert not violations(page)
    assert not mara.complaints
