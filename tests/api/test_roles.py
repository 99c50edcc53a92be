"""Roles over the API: patterns, wildcards that wait for a second admin, assignments."""

from typing import Any

import pytest

from tests.api.callers import calling
from tests.api.conftest import Stage
from tests.nhi import cast

pytestmark = pytest.mark.capability("NHI-09")

WHY = {"reason": "For the test"}


def test_a_role_is_added_read_and_changed(stage: Stage) -> None:
    answer = stage.admin.post("roles", {"name": "reader", "capabilities": ["github.read", "github.commits.*"]})
    assert answer.status == 201
    role = answer.body
    assert role["capabilities"] == ["github.commits.*", "github.read"]
    assert (role["waiting"], role["created_by"], role["description"]) == ([], "mara", "")
    path = f"roles/{role['id']}"
    assert stage.admin.get(path).body == role
    assert stage.admin.get("roles").body["roles"] == [role]
    changed = stage.admin.patch(path, {"capabilities": ["github.read"], "description": "Looks"}).body
    assert (changed["capabilities"], changed["description"]) == (["github.read"], "Looks")
    assert stage.admin.patch(path, {}).body == changed


@pytest.mark.parametrize(
    "wrong, field",
    [
        ({"name": "Reader"}, "name"),
        ({"capabilities": ["github"]}, "capabilities"),
        ({"capabilities": ["github.*.read"]}, "capabilities"),
        ({"capabilities": ["*"]}, "capabilities"),
        ({"capabilities": "github.*"}, "capabilities"),
        ({"capabilities": [None]}, "capabilities.0"),
        ({"waiting": []}, "waiting"),
        ({"id": "x"}, "id"),
    ],
    ids=str,
)
def test_what_is_wrong_is_named(stage: Stage, wrong: dict[str, Any], field: str) -> None:
    answer = stage.admin.post("roles", {"name": "reader", "capabilities": [], **wrong})
    assert answer.is_refused(400, "InvalidParameters")
    assert answer.fields == [field]


def test_the_name_stays_and_is_taken_once(stage: Stage) -> None:
    role = stage.admin.post("roles", {"name": "reader", "capabilities": []}).body
    assert stage.admin.patch(f"roles/{role['id']}", {"name": "writer"}).fields == ["name"]
    assert stage.admin.post("roles", {"name": "reader", "capabilities": []}).is_refused(409, "Conflict", "duplicate")


def test_everything_waits_for_a_second_admin(stage: Stage) -> None:
    role = stage.admin.post("roles", {"name": "all", "capabilities": ["*.*"]}).body
    assert role["capabilities"] == ["*.*"]
    waiting = role["waiting"][0]
    assert (waiting["pattern"], waiting["added_by"]) == ("*.*", "mara")
    stage.admin.post("role-assignments", {"role_id": role["id"], "identity_id": str(stage.bot.pk)})
    reach = f"identities/{stage.bot.pk}/effective-access"
    assert stage.admin.get(reach).body["total"] == 0
    path = f"roles/{role['id']}/capabilities/{waiting['id']}/approve"
    assert stage.admin.post(path, WHY).is_refused(403, "Unauthorized", "own_request")
    assert stage.automation("security-admin").post(path, WHY).is_refused(403, "Unauthorized", "not_allowed")
    assert stage.person("olga").post(path, WHY).is_refused(403, "Unauthorized", "not_allowed")
    second = stage.person("nina", "security-admin")
    approved = second.post(path, WHY)
    assert (approved.status, approved.body["approved_by"], approved.body["pattern"]) == (200, "nina", "*.*")
    assert stage.admin.get(reach).body["total"] == 2
    assert second.post(path, WHY).is_refused(409, "Conflict", "already_approved")


def test_a_removed_wildcard_is_not_there(stage: Stage) -> None:
    role = stage.admin.post("roles", {"name": "all", "capabilities": ["*.*"]}).body
    stage.admin.patch(f"roles/{role['id']}", {"capabilities": []})
    path = f"roles/{role['id']}/capabilities/{role['waiting'][0]['id']}/approve"
    assert stage.person("nina", "security-admin").post(path, WHY).is_refused(404, "NotFound")


def test_a_role_is_held_until_it_is_revoked(stage: Stage) -> None:
    role = stage.admin.post("roles", {"name": "reader", "capabilities": ["github.read"]}).body
    given = {"role_id": role["id"], "identity_id": str(stage.bot.pk)}
    answer = stage.admin.post("role-assignments", {**given, "expires_at": "2031-05-06T07:08:09.000000Z"})
    assert answer.status == 201
    held = answer.body
    assert {name: held[name] for name in given} == given
    assert (held["state"], held["expires_at"]) == ("live", "2031-05-06T07:08:09.000000Z")
    assert stage.agent.get("me").body["roles"] == ["reader"]
    assert stage.admin.post("role-assignments", given).is_refused(409, "Conflict", "duplicate")
    path = f"role-assignments/{held['id']}"
    assert stage.agent.get(path).body == held
    revoked = stage.admin.post(f"{path}/revoke", WHY).body
    assert (set(revoked), revoked["state"]) == ({"id", "state", "revoked_at"}, "revoked")
    assert stage.agent.get("me").body["roles"] == []
    assert stage.admin.post(f"{path}/revoke", WHY).is_refused(409, "Conflict", "already_revoked")
    assert stage.admin.get("role-assignments", state="revoked", role_id=role["id"]).body["total"] == 1
    assert stage.admin.get("role-assignments", state="live").body["role_assignments"] == []


def test_who_sees_and_handles_roles(stage: Stage) -> None:
    role = stage.admin.post("roles", {"name": "reader", "capabilities": ["github.read"]}).body
    assert stage.agent.get("roles").body["total"] == 0
    assert stage.agent.get(f"roles/{role['id']}").is_refused(404, "NotFound")
    held = stage.admin.post("role-assignments", {"role_id": role["id"], "identity_id": str(stage.bot.pk)}).body
    assert stage.agent.get(f"roles/{role['id']}").status == 200
    assert stage.stranger.get(f"role-assignments/{held['id']}").is_refused(404, "NotFound")
    for caller in (stage.agent, calling(cast.user("olga"))):
        assert caller.post("roles", {"name": "x", "capabilities": []}).is_refused(403, "Unauthorized")
        assert caller.patch(f"roles/{role['id']}", {"capabilities": ["*.*"]}).is_refused(403, "Unauthorized")
        given = {"role_id": role["id"], "identity_id": str(stage.bot.pk)}
        assert caller.post("role-assignments", given).is_refused(403, "Unauthorized")
        assert caller.post(f"role-assignments/{held['id']}/revoke", WHY).is_refused(403, "Unauthorized")


def test_a_tool_holds_no_role(stage: Stage) -> None:
    role = stage.admin.post("roles", {"name": "reader", "capabilities": []}).body
    answer = stage.admin.post("role-assignments", {"role_id": role["id"], "identity_id": str(stage.read.pk)})
    assert answer.fields == ["identity_id"]
