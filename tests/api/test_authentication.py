"""Who calls: tokens of all kinds, the console's session, and nobody."""

import re
import uuid
from typing import Any

import pytest
from django.test import Client

from nhi.actors import SYSTEM
from nhi.credentials import credentials, last_used, tokens
from nhi.identities import lifecycle
from nhi.models import Credential, RefusedAuthentication
from nhi.people import people
from tests.api.callers import Caller, calling
from tests.api.conftest import Stage
from tests.nhi import cast

pytestmark = pytest.mark.capability("NHI-04")


def test_me_says_who_an_agent_is(stage: Stage) -> None:
    me = stage.agent.get("me").body
    assert (me["kind"], me["id"], me["name"], me["state"]) == ("agent", str(stage.bot.pk), "bot", "active")
    assert me["roles"] == []
    assert me["token"]["scope"] is None
    assert me["token"]["execution_id"] is None
    assert me["token"]["expires_at"].endswith("Z")


def test_me_says_who_a_person_is(stage: Stage) -> None:
    me = stage.admin.get("me").body
    assert (me["kind"], me["name"], me["state"], me["roles"]) == ("user", "mara", "active", ["security-admin"])
    assert me["token"]["expires_at"].endswith("Z")


def test_no_credential(stage: Stage) -> None:
    answer = Caller().get("me")
    assert answer.is_refused(401, "Unauthorized", "no_credential")
    found = re.fullmatch(r'Bearer resource_metadata="(.+)"', answer.headers["WWW-Authenticate"])
    assert found
    assert found[1].endswith("/.well-known/oauth-protected-resource/api/nhi")


@pytest.mark.parametrize("token", ["", "nhi_agt_x", "nhi_tok_x.y", "x" * 10_000, "nhi_agt_é_", "nhi_agt_a_b c"])
def test_a_malformed_token_costs_no_query(stage: Stage, django_assert_num_queries: Any, token: str) -> None:
    with django_assert_num_queries(0):
        answer = Caller(token or " ").get("me")
    assert answer.is_refused(401, "Unauthorized", "malformed")
    assert 'error="invalid_token"' in answer.headers["WWW-Authenticate"]
    assert not RefusedAuthentication.objects.exists()


@pytest.mark.parametrize("header", ["Basic bWFyYTp4", "Token nhi_agt_1", "Bearer"])
def test_another_scheme_is_an_attempt_too(stage: Stage, header: str) -> None:
    assert Caller().send("GET", "me", Authorization=header).is_refused(401, "Unauthorized", "malformed")


def test_an_unknown_token_and_a_wrong_secret_are_told_alike(stage: Stage) -> None:
    known = Credential.objects.get(identity=stage.bot)
    stranger = tokens.make_credential_token("agt").token
    wrong = with_public_id(known.public_id)
    first, second = Caller(stranger).get("me"), Caller(wrong).get("me")
    assert first.is_refused(401, "Unauthorized", "credential_unknown")
    assert {**first.body, "request_id": ""} == {**second.body, "request_id": ""}
    counted = RefusedAuthentication.objects.values_list("public_id", "count")
    assert sorted(counted) == sorted([("unknown", 1), (known.public_id, 1)])


def test_a_revoked_credential(stage: Stage) -> None:
    row = Credential.objects.get(identity=stage.bot)
    credentials.revoke(actor=SYSTEM, credential=row, reason="Leaked")
    assert stage.agent.get("me").is_refused(401, "Unauthorized", "credential_revoked")


def test_a_suspended_identity(stage: Stage) -> None:
    lifecycle.suspend(actor=SYSTEM, identity=stage.bot, reason="Odd calls")
    assert stage.agent.get("me").is_refused(401, "Unauthorized", "caller_suspended")


def test_a_foreign_network(stage: Stage) -> None:
    issued = credentials.issue(actor=SYSTEM, holder=stage.bot, allowed_networks=["10.0.0.0/8"])
    assert Caller(issued.token).get("me").is_refused(401, "Unauthorized", "network_not_allowed")


def test_a_deactivated_person(stage: Stage) -> None:
    caller = stage.person("tom", "approver")
    assert caller.get("me").status == 200
    people.deactivate(actor=SYSTEM, user=cast.user("tom"), reason="Left")
    assert caller.get("me").status == 401


def test_a_session_reads(stage: Stage) -> None:
    client = Client()
    client.force_login(stage.mara)
    me = Caller(client=client).get("me").body
    assert (me["kind"], me["name"], me["token"]) == ("user", "mara", None)


def test_a_session_writes_only_with_the_csrf_token(stage: Stage) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(stage.mara)
    caller = Caller(client=client)
    body = '{"reason": "Odd calls"}'
    path = f"identities/{stage.bot.pk}/suspend"
    assert caller.send("POST", path, body).is_refused(403, "Unauthorized", "csrf_failed")
    client.cookies["csrftoken"] = "a" * 32
    assert caller.send("POST", path, body, **{"X-CSRFToken": "b" * 32}).is_refused(403, "Unauthorized", "csrf_failed")
    assert caller.send("POST", path, body, **{"X-CSRFToken": "a" * 32}).status == 200


def test_a_token_wins_over_a_session(stage: Stage) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(stage.mara)
    caller = Caller(stage.agent.token, client)
    assert caller.get("me").body["name"] == "bot"
    assert caller.post("identities", {}).is_refused(403, "Unauthorized", "not_allowed")
    assert Caller("nhi_agt_x", client).get("me").is_refused(401, "Unauthorized", "malformed")


def test_the_last_use_is_noted(stage: Stage) -> None:
    stage.agent.get("me")
    last_used.recorder.flush()
    shown = stage.admin.get(f"identities/{stage.bot.pk}/credentials").body["credentials"][0]
    assert shown["last_used_from"] == "127.0.0.1"
    assert shown["last_used_at"].endswith("Z")


def test_a_service_account_with_console_roles(stage: Stage) -> None:
    assert stage.stranger.get("people").is_refused(403, "Unauthorized", "not_allowed")
    automation = stage.automation("security-admin")
    assert automation.get("people").status == 200
    assert automation.get("me").body["console_roles"] == ["security-admin"]
    assert automation.post(f"identities/{stage.bot.pk}/suspend", {"reason": "Night shift"}).status == 200


def test_answers_are_kept_by_no_cache(stage: Stage) -> None:
    assert "no-store" in stage.agent.get("me").headers["Cache-Control"]


def with_public_id(public_id: str) -> str:
    body = f"nhi_agt_{public_id}_{uuid.uuid4().hex}{'0' * 8}"
    return body + tokens.checksum(body)


def test_a_personal_token_is_the_person(stage: Stage) -> None:
    assert calling(stage.olga).get("me").body["roles"] == ["operator"]
