"""Short-lived tokens over RFC 6749, and the metadata that leads there."""

import base64
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.conf import settings

from nhi.actors import SYSTEM
from nhi.authorization import oauth
from nhi.credentials import credentials, tokens
from nhi.identities import lifecycle
from nhi.models import AuditEvent, Credential, Identity, RefusedAuthentication
from tests.api.callers import Caller, Reply
from tests.api.conftest import Stage
from tests.nhi import cast

pytestmark = pytest.mark.capability("NHI-05")

GRANT = {"grant_type": "client_credentials"}


def ask(form: Any, **headers: str) -> Reply:
    body = form if isinstance(form, str) else urlencode(form)
    return Caller().send("POST", "/oauth/token", body, content_type="application/x-www-form-urlencoded", **headers)


def client(caller: Caller) -> dict[str, str]:
    parsed = tokens.parse(caller.token)
    assert isinstance(parsed, tokens.ParsedCredentialToken)
    return {"client_id": parsed.public_id, "client_secret": caller.token}


def basic(name: str, secret: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode()}


def refused(answer: Reply, status: int, word: str) -> bool:
    assert (answer.status, answer.body.get("error")) == (status, word), answer.body
    assert set(answer.body) == {"error", "error_description"}
    assert "no-store" in answer.headers["Cache-Control"]
    assert status != 401 or answer.headers["WWW-Authenticate"].startswith("Basic ")
    return True


def test_a_credential_is_exchanged(stage: Stage) -> None:
    answer = ask({**GRANT, **client(stage.agent)})
    assert answer.status == 200
    assert set(answer.body) == {"access_token", "token_type", "expires_in", "scope"}
    assert answer.body["access_token"].startswith("nhi_tok_")
    assert (answer.body["token_type"], answer.body["expires_in"], answer.body["scope"]) == ("Bearer", 900, "")
    assert "no-store" in answer.headers["Cache-Control"]
    me = Caller(answer.body["access_token"]).get("me").body
    assert (me["name"], me["token"]["scope"]) == ("bot", None)


def test_http_basic_does_as_well(stage: Stage) -> None:
    pair = client(stage.agent)
    answer = ask({**GRANT, "client_id": pair["client_id"]}, **basic(pair["client_id"], pair["client_secret"]))
    assert answer.status == 200


def test_each_token_is_on_record(stage: Stage) -> None:
    ask({**GRANT, **client(stage.agent), "scope": "github.*"})
    event = AuditEvent.objects.get(event="token.issued")
    assert (event.actor_id, event.subject_id, event.details["scope"]) == (stage.bot.pk, stage.bot.pk, "github.*")


def test_a_scope_narrows(stage: Stage) -> None:
    answer = ask({**GRANT, **client(stage.agent), "scope": "github.read jira.*"})
    assert answer.body["scope"] == "github.read jira.*"
    assert Caller(answer.body["access_token"]).get("me").body["token"]["scope"] == "github.read jira.*"


def test_a_narrowed_token_carries_no_console_rights(stage: Stage) -> None:
    automation = stage.automation("security-admin")
    wide = Caller(ask({**GRANT, **client(automation)}).body["access_token"])
    narrow = Caller(ask({**GRANT, **client(automation), "scope": "github.*"}).body["access_token"])
    assert wide.get("people").status == 200
    assert narrow.get("people").is_refused(403, "Unauthorized")
    assert narrow.get("me").body["console_roles"] == []


@pytest.mark.parametrize("resource", ["", "/", "/api/nhi", "/api/nhi/"])
def test_a_resource_of_this_house(stage: Stage, resource: str) -> None:
    answer = ask({**GRANT, **client(stage.agent), "resource": f"{settings.PUBLIC_URL}{resource}"})
    assert Caller(answer.body["access_token"]).get("me").status == 200


def test_a_token_for_another_door_is_refused_here(stage: Stage) -> None:
    row = Credential.objects.select_related("identity").get(identity=stage.bot)
    assert row.identity is not None
    now = int(cast.past().timestamp() * 1000)
    claims = tokens.ShortTokenClaims(row.identity.pk, row.pk, now, now + 60_000, audience=f"{settings.PUBLIC_URL}/mcp")
    answer = Caller(tokens.mint_short_token(claims)).get("me")
    assert answer.is_refused(401, "Unauthorized", "audience_not_allowed")


def test_it_ends_no_later_than_the_credential(stage: Stage) -> None:
    row = Credential.objects.get(identity=stage.bot)
    issued = credentials.rotate(actor=SYSTEM, credential=row, overlap=60)
    old = ask({**GRANT, **client(stage.agent)}).body
    assert 0 < old["expires_in"] <= 60
    assert ask({**GRANT, **client(Caller(issued.token))}).body["expires_in"] == 900


def test_it_ends(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oauth, "MAX_TOKEN_LIFETIME", timedelta(0))
    answer = ask({**GRANT, **client(stage.agent)})
    assert answer.body["expires_in"] == 0
    assert Caller(answer.body["access_token"]).get("me").is_refused(401, "Unauthorized", "token_expired")


@pytest.mark.parametrize("end", ["revoke", "suspend", "suspend and activate"])
def test_it_dies_with_what_it_was_made_from(stage: Stage, end: str) -> None:
    short = Caller(ask({**GRANT, **client(stage.agent)}).body["access_token"])
    if end == "revoke":
        row = Credential.objects.select_related("identity").get(identity=stage.bot)
        credentials.revoke(actor=SYSTEM, credential=row, reason="Leaked")
    else:
        lifecycle.suspend(actor=SYSTEM, identity=stage.bot, reason="Odd calls")
    if end == "suspend and activate":
        again = Identity.objects.get(pk=stage.bot.pk)
        lifecycle.activate(actor=SYSTEM, identity=again, reason="Fine again")
    assert short.get("me").status == 401
    if end == "suspend and activate":
        assert Caller(ask({**GRANT, **client(stage.agent)}).body["access_token"]).get("me").status == 200


def test_a_wrong_secret_is_counted_and_told_like_an_unknown_client(stage: Stage) -> None:
    stranger = tokens.make_credential_token("agt")
    unknown = ask({**GRANT, "client_id": stranger.public_id, "client_secret": stranger.token})
    mixed = ask({**GRANT, **client(stage.agent), "client_id": "another"})
    torn = ask({**GRANT, **client(stage.agent), "client_secret": stage.agent.token[:-1]})
    assert all(refused(answer, 401, "invalid_client") for answer in (unknown, mixed, torn))
    assert RefusedAuthentication.objects.get().count == 2


def test_a_short_lived_token_is_exchanged_for_nothing(stage: Stage) -> None:
    pair = client(stage.agent)
    short = ask({**GRANT, **pair}).body["access_token"]
    assert refused(ask({**GRANT, "client_id": pair["client_id"], "client_secret": short}), 401, "invalid_client")


def test_a_persons_token_neither(stage: Stage) -> None:
    assert refused(ask({**GRANT, **client(stage.admin)}), 400, "unauthorized_client")


def test_a_suspended_identity(stage: Stage) -> None:
    lifecycle.suspend(actor=SYSTEM, identity=stage.bot, reason="Odd calls")
    assert refused(ask({**GRANT, **client(stage.agent)}), 401, "invalid_client")


@pytest.mark.parametrize(
    "form, word",
    [
        ({"grant_type": ""}, "unsupported_grant_type"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"scope": "github"}, "invalid_scope"),
        ({"scope": "github.*  jira.*"}, "invalid_scope"),
        ({"scope": "a.b " * 300 + "a.b"}, "invalid_scope"),
        ({"resource": "https://elsewhere.example/"}, "invalid_target"),
        ({"resource": f"{settings.PUBLIC_URL}/mcpx"}, "invalid_target"),
        ({"client_secret": "\x00"}, "invalid_request"),
    ],
    ids=str,
)
def test_what_is_wrong_has_its_word(stage: Stage, form: dict[str, str], word: str) -> None:
    assert refused(ask({**GRANT, **client(stage.agent), **form}), 400, word)


def test_forms_that_cannot_be_read(stage: Stage) -> None:
    pair = client(stage.agent)
    body = urlencode({**GRANT, **pair})
    for form in ("", "grant_type=client_credentials", f"{body}&scope=a.b&scope=c.d", body + "&x=%ff", "a&" * 50):
        assert refused(ask(form), 400, "invalid_request")
    both = ask({**GRANT, **pair}, **basic(pair["client_id"], pair["client_secret"]))
    assert refused(both, 400, "invalid_request")
    for header in ("Bearer x", "Basic !", "Basic eA=="):
        assert refused(ask(GRANT, Authorization=header), 400, "invalid_request")
    as_json = Caller().send("POST", "/oauth/token", '{"grant_type": "client_credentials"}')
    assert refused(as_json, 400, "invalid_request")
    assert as_json.body["error_description"] == "Send a form, as application/x-www-form-urlencoded."
    assert refused(Caller().send("GET", "/oauth/token"), 405, "invalid_request")
    assert refused(ask("grant_type=" + "x" * 1024 * 1024), 413, "invalid_request")


def test_unknown_parameters_are_ignored(stage: Stage) -> None:
    assert ask({**GRANT, **client(stage.agent), "audience": "x"}).status == 200


def test_the_metadata_leads_to_the_token(stage: Stage) -> None:
    server = Caller().get("/.well-known/oauth-authorization-server").body
    assert server["issuer"] == settings.PUBLIC_URL
    assert server["token_endpoint"] == f"{settings.PUBLIC_URL}/oauth/token"
    assert server["grant_types_supported"] == ["client_credentials"]
    for own in ("", "/api/nhi"):
        resource = Caller().get(f"/.well-known/oauth-protected-resource{own}").body
        assert resource["resource"] == f"{settings.PUBLIC_URL}{own}"
        assert resource["authorization_servers"] == [settings.PUBLIC_URL]
        assert ask({**GRANT, **client(stage.agent), "resource": resource["resource"]}).status == 200
