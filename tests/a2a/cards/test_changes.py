"""Cards as people and automation keep them over REST."""

from typing import Any

import pytest

from a2a.models import AgentCard, Skill
from nhi.actors import SYSTEM
from nhi.identities import identities
from nhi.models import AuditEvent
from tests.a2a.conftest import Stage
from tests.api.callers import Caller, calling
from tests.nhi import cast

pytestmark = [pytest.mark.capability("A2A-04"), pytest.mark.both_databases]
SKILL = {
    "id": "summarise", "name": "Summarise", "description": "Makes a page of a document.", "tags": ["text"],
    "examples": ["Summarise the minutes"], "input_modes": ["text/plain"], "output_modes": [], "public": True,
}  # fmt: skip


@pytest.fixture
def card(stage: Stage) -> str:
    return f"a2a/cards/{stage.writer.pk}"


def test_an_agent_has_a_card_from_the_start(stage: Stage, card: str) -> None:
    read = stage.admin.get(card).body
    assert (read["name"], read["version"], read["form"], read["skills"]) == ("writer", "1.0.0", "merged", [])
    assert not AgentCard.objects.exists()
    assert [row["name"] for row in stage.admin.get("a2a/cards").body["cards"]] == ["other", "planner", "writer"]
    assert stage.admin.get("a2a/cards", discoverable="true").body["total"] == 0


def test_what_is_given_is_changed_and_the_rest_stays(stage: Stage, card: str) -> None:
    provider = {"organization": "Acme", "url": "https://acme.example.com"}
    changed = stage.admin.patch(card, {"description": "Writes.", "provider": provider, "reason": "Asked for"})
    assert changed.status == 200
    assert (changed.body["description"], changed.body["provider"]) == ("Writes.", provider)
    again = stage.admin.patch(card, {"version": "2", "provider": None}).body
    assert (again["description"], again["version"]) == ("Writes.", "2")
    assert again["provider"] == {"organization": "", "url": ""}
    assert again == stage.admin.get(card).body


def test_skills_are_written_all_together_in_their_order(stage: Stage, card: str) -> None:
    second = {"id": "translate", "name": "Translate"}
    whole = stage.admin.patch(card, {"skills": [SKILL, second]}).body["skills"]
    assert [one["id"] for one in whole] == ["summarise", "translate"]
    assert whole[0] == SKILL
    assert whole[1]["tags"] == []
    assert [one["id"] for one in stage.admin.patch(card, {"skills": [second, SKILL]}).body["skills"]] == [
        "translate", "summarise",
    ]  # fmt: skip
    assert stage.admin.patch(card, {"skills": []}).body["skills"] == []


def test_every_change_is_on_record_and_none_that_changes_nothing(stage: Stage, card: str) -> None:
    stage.admin.patch(card, {"description": "Writes.", "skills": [SKILL], "reason": "Asked for"})
    stage.admin.patch(card, {"description": "Writes.", "skills": [SKILL]})
    assert cast.events(stage.writer, event__startswith="card.") == ["card.skills_changed", "card.changed"]
    row = AuditEvent.objects.get(event="card.changed")
    assert (row.before, row.after, row.reason) == ({"description": ""}, {"description": "Writes."}, "Asked for")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"version": ""}, "version"),
        ({"description": "x" * 1001}, "description"),
        ({"description": "a\u202eb"}, "description"),
        ({"provider": {"organization": "Acme", "url": ""}}, "provider.url"),
        ({"provider": {"organization": "Acme", "url": "javascript:alert(1)"}}, "provider.url"),
        ({"documentation_url": "docs"}, "documentation_url"),
        ({"icon_url": "https://user:secret@example.com/x"}, "icon_url"),
        ({"default_input_modes": ["text"]}, "default_input_modes"),
        ({"default_input_modes": ["text/plain", "text/plain"]}, "default_input_modes"),
        ({"form": "2.0"}, "form"),
        ({"discoverable": True}, "discoverable"),
        ({"skills": [{"id": "a b", "name": "A"}]}, "skills.0.id"),
        ({"skills": [SKILL, SKILL]}, "skills.1.id"),
        ({"skills": [{"id": "a", "name": " "}]}, "skills.0.name"),
        ({"skills": [{"id": "a", "name": "A", "tags": ["t"] * 21}]}, "skills.0.tags"),
        ({"skills": [{"id": "a", "name": "A", "input_modes": ["x"]}]}, "skills.0.input_modes"),
    ],
)
def test_what_is_wrong_is_named(stage: Stage, card: str, body: dict[str, Any], field: str) -> None:
    refused = stage.admin.patch(card, body)
    assert refused.is_refused(400, "InvalidParameters")
    assert set(refused.fields) == {field}
    assert not AgentCard.objects.exists()
    assert not Skill.objects.exists()


@pytest.mark.capability("A2A-09")
def test_a_card_promises_nothing_that_its_endpoint_refuses(stage: Stage, card: str) -> None:
    stage.admin.patch(card, {"default_input_modes": ["text/plain", "image/png"], "skills": [SKILL]})
    types = {"capabilities": {"supported_content_types": ["image/*"]}}
    stage.admin.patch(f"a2a/endpoints/{stage.writer.pk}", types)
    told = stage.admin.get(f"{card}/preview").body["v1_0"]
    assert told["defaultInputModes"] == ["image/png"]
    assert "inputModes" not in told["skills"][0]
    refused = stage.admin.patch(card, {"default_input_modes": ["text/plain"]})
    assert refused.fields == ["default_input_modes"]


@pytest.mark.capability("A2A-08")
def test_who_changes_the_identity_changes_its_card_and_nobody_else(stage: Stage, card: str) -> None:
    mine = {"description": "Writes."}
    pat, endpoint = cast.user("pat"), f"a2a/endpoints/{stage.writer.pk}"
    user, approver = calling(pat), calling(cast.user("tom", "approver"))
    assert user.patch(card, mine).is_refused(404, "NotFound")
    cast.user_grant(stage.writer, pat)
    for path, body in ((card, mine), (endpoint, {"transport_protocols": ["json_rpc"]})):
        assert user.get(path).status == 200
        assert user.patch(path, body).is_refused(403, "Unauthorized")
        assert stage.worker.patch(path, body).is_refused(403, "Unauthorized"), "not the agent itself"
        assert stage.sender.patch(path, body).is_refused(404, "NotFound"), "a grant to call is none to see"
        assert approver.patch(path, body).is_refused(403, "Unauthorized")
    assert not AgentCard.objects.exists()
    owner = cast.user("dora")
    identities.change(actor=SYSTEM, identity=stage.writer, owner=owner)
    for who in (calling(owner), calling(cast.user("oscar", "operator"))):
        assert who.patch(card, {"description": "Writes."}).status == 200
        assert who.patch(endpoint, {"transport_protocols": ["json_rpc"]}).status == 200


def test_only_agents_have_cards(stage: Stage) -> None:
    for other in (cast.service("nightly"), cast.tool()):
        for path in ("cards", "endpoints", "agent-card"):
            assert stage.admin.get(f"a2a/{path}/{other.pk}").is_refused(404, "NotFound")


def test_every_form_can_be_read_before_anybody_else_does(stage: Stage, card: str) -> None:
    read = stage.admin.get(f"{card}/preview").body
    assert set(read) == {"merged", "v1_0", "v0_3", "objections"}
    assert "signatures" not in read["merged"]
    assert [one["field"] for one in read["objections"]] == ["supportedInterfaces"]
    assert Caller().get(f"{card}/preview").status == 401
