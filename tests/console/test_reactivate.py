"""Reactivating after a leak: the credentials that may be in other hands are on the page, and go first."""

import re
from typing import Any

import pytest
from django.test import Client

from common.errors import InvalidTransition, NotAllowed
from nhi.actors import SYSTEM
from nhi.choices import GrantState, State, StopCause
from nhi.credentials import credentials
from nhi.identities import lifecycle
from nhi.models import AuditEvent, Credential, Identity
from tests.console.conftest import SignedIn, hub, identity
from tests.nhi import cast

pytestmark = [pytest.mark.capability("NHI-03", "NHI-04"), pytest.mark.both_databases]


@pytest.fixture
def token(seeded: None) -> credentials.IssuedCredential:
    return credentials.issue(actor=SYSTEM, holder=identity())


def stop(client: Client, **body: str) -> None:
    seen = client.get(hub(tab="stop/")).context["seen"]
    assert client.post(hub(tab="stop/"), {"seen": seen, **body}).status_code == 200


def activate(client: Client, **body: str) -> Any:
    seen = client.get(hub(tab="activate/")).context["seen"]
    return client.post(hub(tab="activate/"), {"seen": seen, "reason": "Found the leak", **body})


def tick(page: str) -> str | None:
    found = re.search(r'<input[^>]*name="revoke_credentials"[^>]*>', page)
    return found[0] if found else None


@pytest.mark.parametrize(
    ("reason", "leaked", "cause"),
    [
        ("Emergency stop", False, "emergency"),
        ("Leaked token", False, "leak"),
        ("Leaked token, found in a public log", False, "leak"),
        ("Found in a public log", True, "leak"),
        ("Emergency stop", True, "leak"),
        ("Unexpected behaviour", False, "behaviour"),
        ("Owner asked", False, "owner"),
        ("Owner asked2", False, ""),
        ("It answers nobody", False, ""),
    ],
)
def test_the_cause_of_a_stop_stays_as_a_code(
    mara: Client, token: credentials.IssuedCredential, reason: str, leaked: bool, cause: str
) -> None:
    stop(mara, reason=reason, **({"leaked": "on"} if leaked else {}))
    assert (identity().state_cause, identity().state_reason) == (cause, reason)
    after = AuditEvent.objects.filter(event="identity.suspended").latest("at", "writer_seq").after
    assert after == {"state": "suspended", **({"cause": cause} if cause else {})}


def test_several_that_are_suspended_together_keep_it_too(mara: Client, token: credentials.IssuedCredential) -> None:
    url = f"/admin/nhi/identity/bulk/suspend/?id={identity().pk}&id={identity('writer').pk}"
    seen = mara.get(url).context["seen"]
    mara.post(url, {"reason": "Leaked token", "seen": seen})
    assert {identity().state_cause, identity("writer").state_cause} == {"leak"}


@pytest.mark.parametrize(
    ("cause", "ticked"), [("leak", True), ("", True), ("emergency", False), ("behaviour", False), ("owner", False)]
)
def test_to_revoke_is_chosen_where_a_token_may_be_in_other_hands(
    mara: Client, token: credentials.IssuedCredential, cause: str, ticked: bool
) -> None:
    lifecycle.suspend(actor=SYSTEM, identity=identity(), reason="Stopped", cause=cause)
    page = mara.get(hub(tab="activate/")).content.decode()
    assert token.credential.public_id in page
    assert ("checked" in (tick(page) or "")) is ticked
    assert ("because a token leaked" in page) is (cause == "leak")
    reason = re.search(r'<input[^>]*name="reason"[^>]*>', page)
    assert reason is not None
    assert "value=" not in reason[0]


def test_revoking_comes_before_reactivating_in_one_commit(mara: Client, token: credentials.IssuedCredential) -> None:
    stop(mara, reason="Leaked token")
    answer = activate(mara, revoke_credentials="on")
    assert (answer.status_code, answer["Location"]) == (302, hub(tab="credentials/"))
    page = mara.get(answer["Location"]).content.decode()
    assert "1 credential was revoked. Issue a new one" in page
    assert Credential.objects.get(pk=token.credential.pk).state == GrantState.REVOKED
    assert (identity().state, identity().state_cause) == (State.ACTIVE, "")
    assert cast.events(identity())[-2:] == ["credential.revoked", "identity.activated"]
    answer = Client().get("/api/nhi/me", headers={"Authorization": f"Bearer {token.token}"})
    assert (answer.status_code, answer.json()["details"]["reason"]) == (401, "credential_revoked")


def test_whoever_unticks_it_keeps_them(mara: Client, token: credentials.IssuedCredential) -> None:
    stop(mara, reason="Leaked token")
    assert activate(mara)["Location"] == hub()
    assert Credential.objects.get(pk=token.credential.pk).state == GrantState.LIVE


def test_nothing_is_asked_where_there_is_nothing_to_revoke(mara: Client, seeded: None) -> None:
    lifecycle.suspend(actor=SYSTEM, identity=identity(), reason="Stopped", cause=StopCause.LEAK)
    assert tick(mara.get(hub(tab="activate/")).content.decode()) is None
    assert activate(mara).status_code == 302


def test_what_was_only_inactive_is_activated_as_before(mara: Client, token: credentials.IssuedCredential) -> None:
    lifecycle.deactivate(actor=SYSTEM, identity=identity(), reason="Maintenance")
    assert tick(mara.get(hub(tab="activate/")).content.decode()) is None
    assert activate(mara)["Location"] == hub()
    assert Credential.objects.get(pk=token.credential.pk).state == GrantState.LIVE


def test_who_may_not_lift_the_stop_revokes_nothing_by_trying(
    signed_in: SignedIn, token: credentials.IssuedCredential
) -> None:
    lifecycle.suspend(actor=SYSTEM, identity=identity(), reason="Stopped", cause=StopCause.LEAK)
    with pytest.raises(NotAllowed):
        lifecycle.activate(
            actor=cast.acting("mara-of-nothing", "operator"),
            identity=identity(),
            reason="I need it",
            revoke_credentials=True,
        )
    stale = identity()
    lifecycle.activate(actor=SYSTEM, identity=identity(), reason="Clean")
    with pytest.raises(InvalidTransition):
        lifecycle.activate(actor=SYSTEM, identity=stale, reason="Again", revoke_credentials=True)
    assert Credential.objects.get(pk=token.credential.pk).state == GrantState.LIVE
    assert Identity.objects.get(pk=stale.pk).state == State.ACTIVE
