"""The three kinds of grant over the API."""

from typing import Any

import pytest

from tests.api.callers import ABSENT, Caller
from tests.api.conftest import Stage
from tests.nhi import cast

KINDS = ["tools", "nhi", "users"]
EACH = pytest.mark.parametrize("kind", KINDS)
pytestmark = pytest.mark.capability("NHI-06", "NHI-07", "NHI-08")

Body = dict[str, Any]


def body(stage: Stage, kind: str) -> Body:
    bodies: dict[str, Body] = {
        "tools": {"agent_id": str(stage.bot.pk), "tool_id": str(stage.read.pk)},
        "nhi": {"source_id": str(stage.bot.pk), "target_id": str(stage.other.pk), "permission_type": "call"},
        "users": {"nhi_id": str(stage.bot.pk), "user_id": str(stage.olga.pk), "level": "use"},
    }
    return {**bodies[kind], "reason": "For the test"}


@EACH
def test_a_grant_is_given_and_read(stage: Stage, kind: str) -> None:
    given = body(stage, kind)
    answer = stage.admin.post(f"permissions/{kind}", given)
    assert answer.status == 201
    made = answer.body
    assert {name: made[name] for name in given} == given
    assert (made["state"], made["granted_by"], made["expires_at"]) == ("live", "mara", None)
    assert made["created_at"].endswith("Z")
    assert stage.admin.get(f"permissions/{kind}/{made['id']}").body == made
    assert stage.admin.get(f"permissions/{kind}").body[kind] == [made]


@EACH
def test_a_duplicate_is_a_conflict_until_it_ended(stage: Stage, kind: str) -> None:
    first = stage.admin.post(f"permissions/{kind}", body(stage, kind)).body
    assert stage.admin.post(f"permissions/{kind}", body(stage, kind)).is_refused(409, "Conflict", "duplicate")
    revoked = stage.admin.post(f"permissions/{kind}/{first['id']}/revoke", {"reason": "Done"})
    assert set(revoked.body) == {"id", "state", "revoked_at"}
    assert (revoked.status, revoked.body["id"], revoked.body["state"]) == (200, first["id"], "revoked")
    again = stage.admin.post(f"permissions/{kind}/{first['id']}/revoke", {"reason": "Done"})
    assert again.is_refused(409, "Conflict", "already_revoked")
    second = stage.admin.post(f"permissions/{kind}", body(stage, kind))
    assert (second.status, second.body["id"] != first["id"]) == (201, True)


@EACH
def test_the_list_is_filtered(stage: Stage, kind: str) -> None:
    given = body(stage, kind)
    made = stage.admin.post(f"permissions/{kind}", given).body
    for name in [name for name in given if name.endswith("_id")]:
        assert stage.admin.get(f"permissions/{kind}", **{name: given[name]}).body["total"] == 1
        assert stage.admin.get(f"permissions/{kind}", **{name: ABSENT}).body["total"] == 0
        assert stage.admin.get(f"permissions/{kind}", **{name: "x"}).is_refused(400, "InvalidParameters")
    assert stage.admin.get(f"permissions/{kind}", state="live").body["total"] == 1
    assert stage.admin.get(f"permissions/{kind}", state="expired").body["total"] == 0
    assert stage.admin.get(f"permissions/{kind}", state="gone").is_refused(400, "InvalidParameters")
    stage.admin.post(f"permissions/{kind}/{made['id']}/revoke", {"reason": "Done"})
    assert stage.admin.get(f"permissions/{kind}", state="revoked").body[kind][0]["revoke_reason"] == "Done"


WRONG: list[tuple[str, Body, str]] = [
    ("tools", {"reason": ""}, "reason"),
    ("tools", {"tool_id": None}, "tool_id"),
    ("tools", {"tool_id": ABSENT}, "tool_id"),
    ("tools", {"allowed_parameters": []}, "allowed_parameters"),
    ("tools", {"allowed_parameters": {"type": 5}}, "allowed_parameters"),
    ("tools", {"allowed_parameters": {"$ref": "http://127.0.0.1:1/x"}}, "allowed_parameters"),
    ("tools", {"max_calls_per_hour": 0}, "max_calls_per_hour"),
    ("tools", {"max_calls_per_hour": 2**63}, "max_calls_per_hour"),
    ("tools", {"requires_approval": None}, "requires_approval"),
    ("tools", {"expires_at": "2001-01-01T00:00:00Z"}, "expires_at"),
    ("tools", {"state": "live"}, "state"),
    ("tools", {"granted_by": "olga"}, "granted_by"),
    ("nhi", {"permission_type": "own"}, "permission_type"),
    ("nhi", {"allowed_actions": "x"}, "allowed_actions"),
    ("nhi", {"allowed_actions": [""]}, "allowed_actions"),
    ("nhi", {"allowed_actions": [1]}, "allowed_actions.0"),
    ("nhi", {"source_id": "x"}, "source_id"),
    ("users", {"level": "own"}, "level"),
    ("users", {"user_id": ABSENT}, "user_id"),
    ("users", {"max_calls_per_hour": 1}, "max_calls_per_hour"),
]


@pytest.mark.parametrize("kind, wrong, field", WRONG, ids=str)
def test_what_is_wrong_is_named(stage: Stage, kind: str, wrong: Body, field: str) -> None:
    answer = stage.admin.post(f"permissions/{kind}", {**body(stage, kind), **wrong})
    assert answer.is_refused(400, "InvalidParameters")
    assert answer.fields == [field]
    assert stage.admin.get(f"permissions/{kind}").body["total"] == 0


def test_wrong_kinds_self_and_the_stopped_are_refused(stage: Stage) -> None:
    bot, read = str(stage.bot.pk), str(stage.read.pk)
    swapped = stage.admin.post("permissions/tools", {"agent_id": read, "tool_id": bot, "reason": "x"})
    assert swapped.fields == ["agent_id", "tool_id"]
    call = {"permission_type": "call", "reason": "x"}
    assert stage.admin.post("permissions/nhi", {**call, "source_id": bot, "target_id": bot}).fields == ["target_id"]
    assert stage.admin.post("permissions/nhi", {**call, "source_id": bot, "target_id": read}).fields == ["target_id"]
    stage.admin.post(f"identities/{bot}/suspend", {"reason": "x"})
    assert stage.admin.post("permissions/tools", body(stage, "tools")).fields == ["agent_id"]


@EACH
def test_an_agent_gives_nothing_not_even_to_itself(stage: Stage, kind: str) -> None:
    for caller in (stage.agent, stage.person("tom", "approver"), stage.person("guest")):
        assert caller.post(f"permissions/{kind}", body(stage, kind)).is_refused(403, "Unauthorized", "not_allowed")


@EACH
def test_everybody_sees_their_own(stage: Stage, kind: str) -> None:
    made = stage.admin.post(f"permissions/{kind}", body(stage, kind)).body
    assert [row["id"] for row in stage.agent.get(f"permissions/{kind}").body[kind]] == [made["id"]]
    assert stage.agent.get(f"permissions/{kind}/{made['id']}").status == 200
    assert stage.agent.post(f"permissions/{kind}/{made['id']}/revoke", {"reason": "x"}).is_refused(403, "Unauthorized")
    third = cast.agent("third")
    outsider = Caller(stage.admin.post(f"identities/{third.pk}/credentials").body["token"])
    assert outsider.get(f"permissions/{kind}").body["total"] == 0
    assert outsider.get(f"permissions/{kind}/{made['id']}").is_refused(404, "NotFound")


def test_limits_come_back(stage: Stage) -> None:
    limits = {
        "allowed_parameters": {"type": "object", "required": ["repo"]},
        "max_calls_per_hour": 7,
        "requires_approval": True,
        "expires_at": "2031-05-06T07:08:09.000000Z",
    }
    made = stage.admin.post("permissions/tools", {**body(stage, "tools"), **limits}).body
    assert {name: made[name] for name in limits} == limits
    actions: Body = {"allowed_actions": ["release.*"], "max_calls_per_hour": 7}
    made = stage.admin.post("permissions/nhi", {**body(stage, "nhi"), **actions}).body
    assert {name: made[name] for name in actions} == actions


@pytest.mark.capability("NHI-12")
@pytest.mark.parametrize("selection", ["tool_ids", "server", "pattern"])
def test_many_tools_are_given_at_once(stage: Stage, selection: str) -> None:
    chosen: Body = {
        "tool_ids": [str(stage.read.pk), str(stage.write.pk)],
        "server": "github",
        "pattern": "github.*",
    }
    stage.admin.post("permissions/tools", body(stage, "tools"))
    asked = {"agent_id": str(stage.bot.pk), selection: chosen[selection], "reason": "Takes over"}
    answer = stage.admin.post("permissions/tools/bulk", asked)
    assert answer.status == 200
    found = {item["name"]: item["result"] for item in answer.body["results"]}
    assert found == {"github__read": "exists", "github__write": "created"}
    created = next(item for item in answer.body["results"] if item["result"] == "created")
    assert stage.admin.get(f"permissions/tools/{created['id']}").body["tool_id"] == str(stage.write.pk)


@pytest.mark.capability("NHI-12")
def test_each_item_has_its_own_result(stage: Stage) -> None:
    unknown = ABSENT
    asked = {"agent_id": str(stage.bot.pk), "tool_ids": [unknown, str(stage.read.pk)], "reason": "Takes over"}
    results = stage.admin.post("permissions/tools/bulk", asked).body["results"]
    refused = next(item for item in results if item["tool_id"] == unknown)
    assert (refused["result"], refused["error_code"]) == ("refused", "NotFound")
    assert next(item for item in results if item["tool_id"] == str(stage.read.pk))["result"] == "created"


@pytest.mark.capability("NHI-12")
@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"server": "github", "pattern": "github.*"},
        {"server": "nowhere"},
        {"pattern": "github*"},
        {"tool_ids": []},
        {"tool_ids": [f"{ABSENT[:-3]}{number:03}" for number in range(101)]},
        {"tool_ids": "x"},
    ],
    ids=lambda chosen: ",".join(chosen) or "none",
)
def test_a_selection_that_makes_no_sense(stage: Stage, chosen: Body) -> None:
    answer = stage.admin.post(
        "permissions/tools/bulk", {"agent_id": str(stage.bot.pk), "reason": "Takes over", **chosen}
    )
    assert answer.is_refused(400, "InvalidParameters")
