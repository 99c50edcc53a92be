"""Identities over the API: registering, reading, changing, moving, and all of their access."""

from typing import Any

import pytest

from nhi.choices import TRANSITIONS, State
from nhi.models import AuditEvent, Credential, Identity
from tests.api.callers import ABSENT, Caller
from tests.api.conftest import Stage
from tests.nhi import cast

pytestmark = pytest.mark.capability("NHI-01", "NHI-02")

NEW = {"kind": "agent", "name": "new-bot"}
WHY = {"reason": "For the test"}


@pytest.mark.parametrize("kind, name", [("agent", "a.b_c-9"), ("service_account", "0"), ("tool", "jira__Search/x")])
def test_a_person_registers_what_they_own(stage: Stage, kind: str, name: str) -> None:
    answer = stage.admin.post("identities", {"kind": kind, "name": name})
    assert answer.status == 201
    made = answer.body
    assert (made["kind"], made["name"], made["state"]) == (kind, name, "active")
    assert made["owner"] == {"id": str(stage.mara.pk), "username": "mara"}
    assert (made["inactivity_days"], made["discoverable"], made["tags"]) == (90, False, [])
    assert made["created_at"].endswith("Z")
    assert made["capability"] == ("jira.search.x" if kind == "tool" else None)
    assert stage.admin.get(f"identities/{made['id']}").body == made


def test_everything_that_describes_it_comes_back(stage: Stage) -> None:
    described = {
        "description": "Ships",
        "purpose": "To ship",
        "environment": "prod",
        "team": "Platform",
        "tags": ["prod", "release"],
        "owner_id": str(stage.olga.pk),
        "backup_owner_id": str(stage.mara.pk),
        "expires_at": "2031-05-06T07:08:09.000000Z",
        "inactivity_days": 30,
        "discoverable": True,
    }
    made = stage.admin.post("identities", {**NEW, "activate": False, **described}).body
    assert made["state"] == "inactive"
    people = {"owner_id": made["owner"]["id"], "backup_owner_id": made["backup_owner"]["id"]}
    assert {**made, **people} | described == {**made, **people}


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no kind": ({"name": "x"}, "kind"),
    "no name": ({"kind": "agent"}, "name"),
    "another kind": ({**NEW, "kind": "robot"}, "kind"),
    "a kind that is a list": ({**NEW, "kind": ["agent"]}, "kind"),
    "a capital": ({**NEW, "name": "Bot"}, "name"),
    "a line's end": ({**NEW, "name": "bot\n"}, "name"),
    "too long": ({**NEW, "name": "b" * 64}, "name"),
    "a number as name": ({**NEW, "name": 7}, "name"),
    "null as name": ({**NEW, "name": None}, "name"),
    "no tool's name": ({"kind": "tool", "name": "github"}, "name"),
    "an unknown key": ({**NEW, "colour": "red"}, "colour"),
    "the state": ({**NEW, "state": "archived"}, "state"),
    "the id": ({**NEW, "id": ABSENT}, "id"),
    "the past": ({**NEW, "expires_at": "2020-01-01T00:00:00Z"}, "expires_at"),
    "no offset": ({**NEW, "expires_at": "2040-01-01T00:00:00"}, "expires_at"),
    "no time": ({**NEW, "expires_at": "tomorrow"}, "expires_at"),
    "a number as time": ({**NEW, "expires_at": 2000000000}, "expires_at"),
    "before the first year": ({**NEW, "expires_at": "0001-01-01T00:00:00+14:00"}, "expires_at"),
    "after the last year": ({**NEW, "expires_at": "9999-12-31T23:59:59-14:00"}, "expires_at"),
    "a text as number": ({**NEW, "inactivity_days": "90"}, "inactivity_days"),
    "true as number": ({**NEW, "inactivity_days": True}, "inactivity_days"),
    "a half": ({**NEW, "inactivity_days": 1.5}, "inactivity_days"),
    "no days": ({**NEW, "inactivity_days": 0}, "inactivity_days"),
    "too many days": ({**NEW, "inactivity_days": 2**62}, "inactivity_days"),
    "a text as flag": ({**NEW, "activate": "yes"}, "activate"),
    "null as flag": ({**NEW, "discoverable": None}, "discoverable"),
    "tags as text": ({**NEW, "tags": "prod"}, "tags"),
    "a tag twice": ({**NEW, "tags": ["a", "a"]}, "tags"),
    "a number as tag": ({**NEW, "tags": [1]}, "tags.0"),
    "no uuid": ({**NEW, "owner_id": "mara"}, "owner_id"),
    "an unknown owner": ({**NEW, "owner_id": ABSENT}, "owner_id"),
    "a capability of no tool": ({**NEW, "capability": "github.read"}, "capability"),
    "a text too long": ({**NEW, "purpose": "x" * 1001}, "purpose"),
    "a mark that turns text": ({**NEW, "team": "a\u202eb"}, "team"),
}


@pytest.mark.parametrize("body, field", WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_named(stage: Stage, body: dict[str, Any], field: str) -> None:
    before = Identity.objects.count()
    answer = stage.admin.post("identities", body)
    assert answer.is_refused(400, "InvalidParameters", "invalid")
    assert field in answer.fields
    assert Identity.objects.count() == before


def test_every_problem_is_said_at_once(stage: Stage) -> None:
    answer = stage.admin.post("identities", {"kind": "robot", "colour": "red", "tags": 5})
    assert set(answer.fields) == {"colour", "kind", "name", "tags"}


def test_the_backup_owner_is_another(stage: Stage) -> None:
    answer = stage.admin.post("identities", {**NEW, "backup_owner_id": str(stage.mara.pk)})
    assert answer.is_refused(400, "InvalidParameters")
    assert answer.fields == ["backup_owner_id"]


def test_a_name_is_taken_once_for_a_kind(stage: Stage) -> None:
    assert stage.admin.post("identities", {"kind": "agent", "name": "bot"}).is_refused(409, "Conflict", "duplicate")
    assert stage.admin.post("identities", {"kind": "service_account", "name": "bot"}).status == 201


def test_automation_must_name_an_owner(stage: Stage) -> None:
    automation = stage.automation("security-admin")
    answer = automation.post("identities", NEW)
    assert answer.is_refused(400, "InvalidParameters")
    assert answer.fields == ["owner_id"]
    assert automation.post("identities", {**NEW, "owner_id": str(stage.olga.pk)}).status == 201


def test_only_admins_register(stage: Stage) -> None:
    for caller in (stage.agent, stage.person("olga"), stage.person("tom", "approver")):
        assert caller.post("identities", NEW).is_refused(403, "Unauthorized", "not_allowed")


def test_a_list_has_pages(stage: Stage) -> None:
    first = stage.admin.get("identities", limit=2).body
    assert [row["name"] for row in first["identities"]] == ["bot", "github__read"]
    assert {name: first[name] for name in ("total", "limit", "offset")} == {"total": 5, "limit": 2, "offset": 0}
    last = stage.admin.get("identities", limit=2, offset=4).body
    assert [row["name"] for row in last["identities"]] == ["other"]
    assert stage.admin.get("identities", offset=99).body["identities"] == []
    assert stage.admin.get("identities", offset=10**30).body["identities"] == []
    assert stage.admin.get("identities", limit=10**30).body["limit"] == 100
    assert stage.admin.get("identities").body["limit"] == 20


@pytest.mark.parametrize(
    "query",
    [{"limit": 0}, {"limit": -1}, {"limit": "x"}, {"limit": ""}, {"offset": -1}, {"offset": "1.5"}, {"kind": "robot"},
     {"state": "asleep"}, {"state": ""}, {"owner_id": "mara"}, {"name": "a\x00b"}, {"limit": "9" * 5000}],
    ids=str,
)  # fmt: skip
def test_a_question_that_makes_no_sense(stage: Stage, query: dict[str, Any]) -> None:
    answer = stage.admin.get("identities", **query)
    assert answer.is_refused(400, "InvalidParameters")
    assert answer.fields == list(query)


def test_a_list_is_filtered(stage: Stage) -> None:
    def names(**query: Any) -> list[str]:
        return [row["name"] for row in stage.admin.get("identities", **query).body["identities"]]

    assert names(kind="tool") == ["github__read", "github__write"]
    assert names(name="bot", unknown="ignored") == ["bot"]
    assert names(owner_id=str(stage.olga.pk), kind="agent") == ["bot", "other"]
    assert names(state="suspended") == []


def test_everybody_sees_their_own(stage: Stage) -> None:
    def names(caller: Caller) -> set[str]:
        return {row["name"] for row in caller.get("identities").body["identities"]}

    assert names(stage.agent) == {"bot"}
    guest = stage.person("guest")
    assert names(guest) == set()
    cast.user_grant(stage.bot, cast.user("guest"))
    assert names(guest) == {"bot"}
    assert len(names(stage.person("olga"))) == 5


def test_a_change_is_partial_and_on_record(stage: Stage) -> None:
    path = f"identities/{stage.bot.pk}"
    before = stage.admin.get(path).body
    after = stage.admin.patch(path, {"purpose": "Reads", "tags": ["x"], "expires_at": "2040-01-01T00:00:00+02:00"})
    assert after.status == 200
    assert after.body["expires_at"] == "2039-12-31T22:00:00.000000Z"
    changed = {name for name, value in after.body.items() if before[name] != value}
    assert changed == {"purpose", "tags", "expires_at", "updated_at"}
    assert stage.admin.patch(path, {"expires_at": None}).body["expires_at"] is None
    recorded = AuditEvent.objects.filter(event="identity.changed", subject_id=stage.bot.pk)
    assert recorded.count() == 2


@pytest.mark.parametrize("key", ["kind", "name", "state", "created_at", "created_by", "id", "activate", "owner"])
def test_what_a_change_may_not_touch(stage: Stage, key: str) -> None:
    answer = stage.admin.patch(f"identities/{stage.bot.pk}", {key: "agent"})
    assert answer.is_refused(400, "InvalidParameters")
    assert answer.fields == [key]


def test_an_owner_changes_their_own_and_a_user_does_not(stage: Stage) -> None:
    guest = stage.person("guest")
    cast.user_grant(stage.other, cast.user("guest"), "manage")
    assert guest.patch(f"identities/{stage.other.pk}", {"team": "Mine"}).is_refused(403, "Unauthorized")
    own = cast.agent("own", owner=cast.user("guest"))
    assert guest.patch(f"identities/{own.pk}", {"team": "Mine"}).body["team"] == "Mine"
    assert stage.agent.patch(f"identities/{stage.bot.pk}", {"team": "Mine"}).is_refused(403, "Unauthorized")


VERBS = {
    "activate": State.ACTIVE,
    "deactivate": State.INACTIVE,
    "suspend": State.SUSPENDED,
    "deprecate": State.DEPRECATED,
    "archive": State.ARCHIVED,
}
#: The verbs that lead to each state from a new, inactive identity.
WAYS: dict[State, list[str]] = {
    State.INACTIVE: [],
    State.ACTIVE: ["activate"],
    State.SUSPENDED: ["activate", "suspend"],
    State.DEPRECATED: ["deprecate"],
    State.ARCHIVED: ["deprecate", "archive"],
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("old", State)
def test_moves_are_those_of_the_table(stage: Stage, old: State, verb: str) -> None:
    made = stage.admin.post("identities", {**NEW, "activate": False}).body
    path = f"identities/{made['id']}"
    for step in WAYS[old]:
        assert stage.admin.post(f"{path}/{step}", WHY).status == 200
    answer = stage.admin.post(f"{path}/{verb}", WHY)
    if VERBS[verb] in TRANSITIONS[old]:
        assert (answer.status, answer.body["state"]) == (200, VERBS[verb])
    else:
        assert answer.is_refused(409, "Conflict", "invalid_transition")
        assert stage.admin.get(path).body["state"] == old


@pytest.mark.parametrize("body", [{}, {"reason": ""}, {"reason": "  "}, {"reason": None}, {"reason": "x" * 501}])
@pytest.mark.parametrize("verb", VERBS)
def test_a_move_needs_a_reason(stage: Stage, verb: str, body: dict[str, Any]) -> None:
    answer = stage.admin.post(f"identities/{stage.bot.pk}/{verb}", body)
    assert answer.is_refused(400, "InvalidParameters")
    assert answer.fields == ["reason"]


@pytest.mark.capability("NHI-03")
@pytest.mark.django_db(transaction=True)  # its steps run in threads, which must see what is there
def test_a_suspend_says_what_it_stopped_and_ends_access(stage: Stage) -> None:
    answer = stage.admin.post(f"identities/{stage.bot.pk}/suspend", WHY)
    counts = {"tokens": 1, "calls": 0, "tasks": 0, "schedules": 0, "executions": 0}
    assert answer.body == {"id": str(stage.bot.pk), "state": "suspended", "stopped": counts, "pending": []}
    assert stage.agent.get("me").status == 401
    stage.admin.post(f"identities/{stage.bot.pk}/activate", WHY)
    assert stage.agent.get("me").status == 200


@pytest.mark.capability("NHI-03")
def test_an_archive_revokes_what_it_held(stage: Stage) -> None:
    grant = cast.tool_grant(stage.bot, stage.read)
    stage.admin.post(f"identities/{stage.bot.pk}/deprecate", WHY)
    answer = stage.admin.post(f"identities/{stage.bot.pk}/archive", WHY)
    assert (answer.status, answer.body["state"], answer.body["stopped"]["tokens"]) == (200, "archived", 1)
    assert Credential.objects.get(identity=stage.bot).state == "revoked"
    assert stage.admin.get(f"permissions/tools/{grant.pk}").body["state"] == "revoked"


@pytest.mark.capability("NHI-02")
def test_who_may_move(stage: Stage) -> None:
    path = f"identities/{stage.bot.pk}/suspend"
    guest = stage.person("guest")
    cast.user_grant(stage.bot, cast.user("guest"), "use")
    assert guest.post(path, WHY).is_refused(403, "Unauthorized", "not_allowed")
    assert stage.agent.post(path, WHY).is_refused(403, "Unauthorized", "not_allowed")
    assert stage.stranger.post(path, WHY).is_refused(404, "NotFound")
    keeper = stage.person("keeper")
    cast.user_grant(stage.bot, cast.user("keeper"), "manage")
    assert keeper.post(path, WHY).status == 200


@pytest.mark.capability("NHI-06", "NHI-09")
def test_effective_access_names_what_leads_there(stage: Stage) -> None:
    grant = cast.tool_grant(stage.bot, stage.read, expires_at=cast.future(days=3))
    role = stage.admin.post("roles", {"name": "all-github", "capabilities": ["github.*"]}).body
    held = stage.admin.post("role-assignments", {"role_id": role["id"], "identity_id": str(stage.bot.pk)}).body
    cast.nhi_grant(stage.bot, stage.other)
    access = stage.agent.get(f"identities/{stage.bot.pk}/effective-access").body
    assert (access["total"], [tool["name"] for tool in access["tools"]]) == (3, ["github__read", "github__write"])
    by_grant, by_role = access["tools"][0]["via"]
    assert (by_grant["kind"], by_grant["id"]) == ("grant", str(grant.pk))
    assert by_grant["expires_at"].endswith("Z")
    assert by_role == {"kind": "role", "id": held["id"], "name": "all-github", "expires_at": None}
    assert [agent["agent_id"] for agent in access["agents"]] == [str(stage.other.pk)]


@pytest.mark.capability("NHI-12")
def test_access_is_copied_item_by_item(stage: Stage) -> None:
    cast.tool_grant(stage.bot, stage.read)
    cast.tool_grant(stage.bot, stage.write, max_calls_per_hour=5)
    cast.tool_grant(stage.other, stage.read)
    path = f"identities/{stage.bot.pk}/copy-access"
    results = stage.admin.post(path, {"to_id": str(stage.other.pk)}).body["results"]
    assert [(item["name"], item["result"]) for item in results] == [
        ("github__read", "exists"),
        ("github__write", "created"),
    ]
    assert stage.admin.get(f"permissions/tools/{results[1]['id']}").body["max_calls_per_hour"] == 5
    unknown = stage.admin.post(path, {"to_id": ABSENT})
    assert unknown.is_refused(400, "InvalidParameters")
    assert unknown.fields == ["to_id"]
    assert stage.agent.post(path, {"to_id": str(stage.bot.pk)}).is_refused(403, "Unauthorized")


@pytest.mark.capability("NHI-01")
def test_people_are_for_admins(stage: Stage) -> None:
    listed = stage.admin.get("people").body
    assert {"id": str(stage.mara.pk), "username": "mara", "roles": ["security-admin"]} in listed["people"]
    assert listed["total"] == len(listed["people"])
    for caller in (stage.agent, stage.person("guest"), stage.person("olga")):
        assert caller.get("people").is_refused(403, "Unauthorized", "not_allowed")
    assert stage.person("ada", "auditor").get("people").status == 200
