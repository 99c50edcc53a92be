"""Who reads which card, and what caches keep of it."""

from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from a2a import card_changes, endpoint_changes
from nhi.access import grants
from nhi.actors import SYSTEM
from nhi.identities import identities, lifecycle
from nhi.models import Identity
from tests.a2a.cards.reading import path_of, read
from tests.a2a.conftest import Stage
from tests.api.callers import ABSENT, Caller, calling
from tests.nhi import cast

pytestmark = [pytest.mark.capability("A2A-04"), pytest.mark.both_databases]


@pytest.fixture
def public(stage: Stage) -> Identity:
    return identities.change(actor=SYSTEM, identity=stage.writer, discoverable=True)


def told(answer: Any) -> tuple[int, Any]:
    return answer.status_code, {**answer.json(), "request_id": ""}


@pytest.mark.capability("A2A-08")
def test_strangers_hear_the_same_of_what_is_hidden_and_of_what_is_not_there(stage: Stage) -> None:
    hidden, absent = read("writer"), read("nobody")
    assert told(hidden) == told(absent)
    assert hidden.status_code == 404
    assert told(read("writer", token=stage.stranger.token)) == told(absent)
    assert told(read("nobody", token=stage.stranger.token)) == told(absent)
    assert told(Client().get(f"/.well-known/agents/{stage.writer.pk}")) == told(absent)
    assert told(Client().get(f"/.well-known/agents/{ABSENT}")) == told(absent)
    for odd in ("Writer", "wri%00ter", "%F0%9F%A6%8A", "a" * 300, cast.service("nightly").name):
        assert Client().get(path_of(odd)).status_code == 404


def test_anyone_reads_the_card_of_a_discoverable_agent_that_may_act(public: Identity) -> None:
    assert read().status_code == 200
    assert read().json()["url"].endswith("/agents/writer")
    assert Client().get(path_of("writer", "agent.json")).json()["name"] == "writer"
    lifecycle.suspend(actor=SYSTEM, identity=public, reason="For the test")
    assert told(read()) == told(read("nobody"))


def test_nobody_reads_the_card_of_one_whose_time_is_over(public: Identity) -> None:
    Identity.objects.filter(pk=public.pk).update(expires_at=timezone.now())
    assert read().status_code == 404


def test_whoever_may_call_it_reads_it_hidden_or_not(stage: Stage) -> None:
    assert read(token=stage.sender.token).status_code == 200
    assert read(token=stage.worker.token).status_code == 200
    assert read(token=stage.admin.token).headers["Cache-Control"] == "private, no-cache"
    grants.revoke(actor=SYSTEM, grant=stage.grant, reason="For the test")
    assert read(token=stage.sender.token).status_code == 200
    pat = cast.user("pat")
    assert read(token=calling(pat).token).status_code == 404
    cast.user_grant(stage.writer, pat)
    assert read(token=calling(pat).token).status_code == 200


def test_a_token_that_is_none_is_refused_whoever_is_asked_for(public: Identity) -> None:
    for name in ("writer", "nobody"):
        answer = read(name, Authorization="Bearer nhi_agt_nothing")
        assert answer.status_code == 401
        assert "WWW-Authenticate" in answer.headers


def test_where_callers_show_an_api_key_it_opens_the_card_too(stage: Stage) -> None:
    endpoint_changes.change(actor=SYSTEM, identity=stage.writer, authentication="api_key", api_key_header="X-Key")
    card = read(**{"X-Key": stage.sender.token})
    assert card.json()["securitySchemes"]["apiKey"]["name"] == "X-Key"
    for wrong in ("", "nonsense", stage.stranger.token):
        assert told(read(**{"X-Key": wrong})) == told(read("nobody"))


@pytest.mark.parametrize(("version", "has", "has_not"), [
    ("", {"supportedInterfaces", "url", "protocolVersion"}, set()),
    ("1.0", {"supportedInterfaces"}, {"url", "protocolVersion", "security"}),
    ("1.0.1", {"supportedInterfaces"}, {"url", "protocolVersion", "security"}),
    ("0.3", {"url", "protocolVersion"}, {"supportedInterfaces", "securityRequirements"}),
    ("7.0", {"supportedInterfaces", "url"}, set()),
])  # fmt: skip
def test_a_client_gets_the_form_of_its_version(
    public: Identity, version: str, has: set[str], has_not: set[str]
) -> None:  # fmt: skip
    for answer in (read(version=version), Client().get(path_of("writer"), {"A2A-Version": version})):
        assert has <= set(answer.json())
        assert not has_not & set(answer.json())
        assert "A2A-Version" in answer.headers["Vary"]


def test_people_choose_what_is_served_to_who_asks_for_no_version(public: Identity) -> None:
    card_changes.change(actor=SYSTEM, identity=public, form="1.0")
    assert "protocolVersion" not in read().json()
    assert "supportedInterfaces" not in read(version="0.3").json()


def test_caches_ask_again_and_hear_whether_it_changed(public: Identity) -> None:
    first = read()
    assert first.headers["Cache-Control"] == "public, max-age=60"
    assert first.headers["ETag"].startswith('W/"')
    again = read(**{"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", first.headers["ETag"])
    assert read(**{"If-Modified-Since": first.headers["Last-Modified"]}).status_code == 304
    head = Client().head(path_of("writer"))
    assert (head.status_code, head.headers["ETag"]) == (200, first.headers["ETag"])
    assert read(version="1.0").headers["ETag"] != first.headers["ETag"]
    card_changes.change(actor=SYSTEM, identity=public, description="Another")
    assert read(**{"If-None-Match": first.headers["ETag"]}).status_code == 200


def test_the_card_says_what_its_endpoint_does(public: Identity) -> None:
    set_up = {
        "transports": ["http_json", "grpc"], "streaming": False, "content_types": ["text/plain", "image/*"],
        "supported_methods": ["SendMessage", "GetTask"],
    }  # fmt: skip
    endpoint_changes.change(actor=SYSTEM, identity=public, **set_up)
    card = read(version="1.0").json()
    assert [way["protocolBinding"] for way in card["supportedInterfaces"]] == ["HTTP+JSON", "GRPC"] * 2
    assert card["capabilities"] == {"streaming": False, "pushNotifications": False, "extendedAgentCard": False}
    assert card["defaultInputModes"] == card["defaultOutputModes"] == ["text/plain", "image/*"]
    old = read(version="0.3").json()
    assert (old["preferredTransport"], old["supportsAuthenticatedExtendedCard"]) == ("HTTP+JSON", False)


def test_addresses_come_from_the_setting_and_never_from_the_request(public: Identity, settings: Any) -> None:
    settings.PUBLIC_URL, settings.GRPC_PORT = "https://gatehouse.example.com", 8443
    card = Client().get(path_of("writer"), headers={"Host": "localhost"}).json()
    assert card["url"] == "https://gatehouse.example.com/agents/writer"
    assert card["supportedInterfaces"][2]["url"] == "gatehouse.example.com:8443"
    assert card["additionalInterfaces"][2]["url"] == "https://gatehouse.example.com:8443"


def test_a_card_without_skills_tells_of_one(public: Identity) -> None:
    (skill,) = read().json()["skills"]
    assert skill == {
        "id": "writer", "name": "writer", "description": "Whatever writer is asked to do.", "tags": ["agent"],
    }  # fmt: skip


SEED = {
    "name": "writer",
    "description": None,
    "url": "http://127.0.0.1:8000/agents/writer",
    "version": "1.0.0",
    "protocol_version": "0.3",
    "capabilities": {"streaming": True, "push_notifications": True},
    "authentication": {"schemes": ["bearer"]},
    "skills": [{"id": "writer", "name": "writer", "description": "Whatever writer is asked to do."}],
}


@pytest.mark.capability("A2A-01")
def test_the_contracts_card_is_the_contracts_to_the_letter(public: Identity, stage: Stage, settings: Any) -> None:
    settings.PUBLIC_URL = "http://127.0.0.1:8000"
    assert Client().get(f"/.well-known/agents/{public.pk}").json() == SEED
    for caller in (stage.stranger, stage.sender, stage.admin):
        assert caller.get(f"a2a/agent-card/{public.pk}").body == SEED
    identities.change(actor=SYSTEM, identity=public, discoverable=False)
    assert stage.stranger.get(f"a2a/agent-card/{public.pk}").is_refused(404, "NotFound")
    assert stage.sender.get(f"a2a/agent-card/{public.pk}").body == SEED
    assert Caller().get(f"a2a/agent-card/{public.pk}").status == 401
    assert Caller(stage.sender.token).get(f"/.well-known/agents/{public.pk}").body == SEED
