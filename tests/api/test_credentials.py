"""Credentials over the API: shown once, at most two, rotated with an overlap, revoked at once."""

from typing import Any

import pytest

from common.db import clock
from nhi.models import Credential
from tests.api.callers import Caller
from tests.api.conftest import Stage
from tests.nhi import cast

pytestmark = pytest.mark.capability("NHI-04")


def path(stage: Stage) -> str:
    return f"identities/{stage.bot.pk}/credentials"


def test_a_token_is_shown_once(stage: Stage) -> None:
    answer = stage.admin.post(path(stage), {"expires_in_days": 30, "allowed_networks": ["127.0.0.1", "::1/128"]})
    assert answer.status == 201
    issued = answer.body
    assert set(issued) == {"id", "public_id", "token", "expires_at", "allowed_networks", "state"}
    assert (issued["state"], issued["allowed_networks"]) == ("live", ["127.0.0.1/32", "::1/128"])
    assert issued["token"].startswith(f"nhi_agt_{issued['public_id']}_")
    assert "no-store" in answer.headers["Cache-Control"]
    assert Caller(issued["token"]).get("me").status == 200
    listed = stage.admin.get(path(stage))
    assert issued["token"] not in str(listed.body)
    assert issued["id"] in [row["id"] for row in listed.body["credentials"]]


def test_it_lives_90_days_unless_told_otherwise(stage: Stage) -> None:
    stage.admin.post(path(stage))
    row = Credential.objects.filter(identity=stage.bot).latest("created_at")
    assert round(row.lifetime.total_seconds() / 86400) == 90


@pytest.mark.parametrize(
    "body, field",
    [
        ({"expires_in_days": 0}, "expires_in_days"),
        ({"expires_in_days": 367}, "expires_in_days"),
        ({"expires_in_days": None}, "expires_in_days"),
        ({"expires_in_days": 10**18}, "expires_in_days"),
        ({"allowed_networks": ["10.0.0.0/33"]}, "allowed_networks"),
        ({"allowed_networks": "10.0.0.0/8"}, "allowed_networks"),
        ({"expires_at": None}, "expires_at"),
        ({"token": "nhi_agt_mine"}, "token"),
        ({"public_id": "mine"}, "public_id"),
    ],
    ids=str,
)
def test_what_is_wrong_is_named(stage: Stage, body: dict[str, Any], field: str) -> None:
    answer = stage.admin.post(path(stage), body)
    assert answer.is_refused(400, "InvalidParameters")
    assert answer.fields == [field]


def test_a_third_live_one_is_a_conflict(stage: Stage) -> None:
    assert stage.admin.post(path(stage)).status == 201
    assert stage.admin.post(path(stage)).is_refused(409, "Conflict", "two_live")


def test_a_tool_has_none(stage: Stage) -> None:
    assert stage.admin.post(f"identities/{stage.read.pk}/credentials").is_refused(400, "InvalidParameters")


def test_a_rotation_overlaps(stage: Stage) -> None:
    old = Credential.objects.get(identity=stage.bot)
    answer = stage.admin.post(f"credentials/{old.pk}/rotate", {"overlap_seconds": 60})
    assert answer.status == 200
    assert answer.body["previous"]["id"] == str(old.pk)
    assert Caller(answer.body["token"]).get("me").status == 200
    assert stage.agent.get("me").status == 200
    assert stage.admin.post(f"credentials/{old.pk}/rotate").is_refused(409, "Conflict", "two_live")
    left = (Credential.objects.get(pk=old.pk).expires_at or clock.database_now()) - clock.database_now()
    assert 0 < left.total_seconds() <= 60


def test_a_rotation_without_overlap_ends_the_old_one(stage: Stage) -> None:
    old = Credential.objects.get(identity=stage.bot)
    answer = stage.admin.post(f"credentials/{old.pk}/rotate", {"overlap_seconds": 0})
    assert stage.agent.get("me").is_refused(401, "Unauthorized", "credential_expired")
    assert Caller(answer.body["token"]).get("me").status == 200
    assert stage.admin.post(f"credentials/{old.pk}/rotate").is_refused(409, "Conflict", "not_live")


def test_a_revoke_counts_at_once(stage: Stage) -> None:
    row = Credential.objects.get(identity=stage.bot)
    answer = stage.admin.post(f"credentials/{row.pk}/revoke", {"reason": "Leaked"})
    assert set(answer.body) == {"id", "state", "revoked_at"}
    assert (answer.body["id"], answer.body["state"]) == (str(row.pk), "revoked")
    assert answer.body["revoked_at"].endswith("Z")
    assert stage.agent.get("me").is_refused(401, "Unauthorized", "credential_revoked")
    again = stage.admin.post(f"credentials/{row.pk}/revoke", {"reason": "Leaked"})
    assert again.is_refused(409, "Conflict", "not_live")


def test_the_list_is_filtered_by_state(stage: Stage) -> None:
    row = Credential.objects.get(identity=stage.bot)
    stage.admin.post(f"credentials/{row.pk}/revoke", {"reason": "Leaked"})
    assert stage.admin.get(path(stage), state="live").body["total"] == 0
    assert stage.admin.get(path(stage), state="revoked").body["total"] == 1
    assert stage.admin.get(path(stage), state="dead").is_refused(400, "InvalidParameters")


def test_who_sees_and_handles_them(stage: Stage) -> None:
    own = Credential.objects.get(identity=stage.bot)
    assert stage.agent.get(path(stage)).body["total"] == 1
    assert stage.agent.post(path(stage)).is_refused(403, "Unauthorized")
    assert stage.agent.post(f"credentials/{own.pk}/revoke", {"reason": "x"}).is_refused(403, "Unauthorized")
    assert stage.stranger.get(path(stage)).is_refused(404, "NotFound")
    assert stage.stranger.post(f"credentials/{own.pk}/revoke", {"reason": "x"}).is_refused(404, "NotFound")
    assert stage.person("kim", "operator").get(path(stage)).body["total"] == 0
    keeper = stage.person("keeper")
    cast.user_grant(stage.bot, cast.user("keeper"), "manage")
    assert keeper.get(path(stage)).body["total"] == 1
    assert keeper.post(path(stage)).status == 201
