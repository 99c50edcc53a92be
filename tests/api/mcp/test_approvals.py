"""Calls that wait for a person, over the API."""

import json
from datetime import timedelta

import pytest

from common.db import clock
from mcp.models import CallApproval
from tests.api.callers import ABSENT
from tests.api.conftest import Stage
from tests.api.mcp import rows

pytestmark = pytest.mark.capability("NHI-14")
SECRET = "ghp_" + "k3" * 18


def test_a_person_approves(stage: Stage) -> None:
    kept = rows.keep(stage.mara, stage.bot)
    tom = stage.person("tom", "approver")
    waiting = tom.get("approvals", state="pending").body
    assert waiting["total"] == 1
    one = waiting["approvals"][0]
    wanted = {
        "id": str(kept.approval.pk), "state": "pending", "agent_name": "bot", "tool_name": "kept__echo",
        "arguments": {"title": "x"}, "attempts": 1, "decided_by": None, "used_by": None,
    }  # fmt: skip
    assert {name: one[name] for name in wanted} == wanted
    assert tom.get(f"approvals/{one['id']}").body == one
    place = f"approvals/{one['id']}/approve"
    assert tom.post(place, {}).fields == ["reason"]
    assert tom.post(place, {"reason": " "}).fields == ["reason"]
    done = tom.post(place, {"reason": "Looks right"})
    said = {name: done.body[name] for name in ("state", "decided_by", "reason")}
    assert (done.status, said) == (200, {"state": "approved", "decided_by": "tom", "reason": "Looks right"})
    assert tom.post(place, {"reason": "Again"}).is_refused(409, "Conflict", "not_waiting")
    assert tom.get("approvals", state="pending").body["total"] == 0
    assert tom.get("approvals", state="approved").body["total"] == 1


def test_a_person_refuses(stage: Stage) -> None:
    kept = rows.keep(stage.mara, stage.bot)
    done = stage.admin.post(f"approvals/{kept.approval.pk}/refuse", {"reason": "Not today"})
    assert (done.status, done.body["state"]) == (200, "refused")
    assert stage.admin.post(f"approvals/{kept.approval.pk}/approve", {"reason": "x"}).is_refused(409, "Conflict")


def test_what_is_past_its_time_has_expired(stage: Stage) -> None:
    kept = rows.keep(stage.mara, stage.bot)
    CallApproval.objects.update(expires_at=clock.database_now() - timedelta(seconds=1))
    assert stage.admin.get("approvals", state="pending").body["total"] == 0
    assert stage.admin.get("approvals", state="expired").body["approvals"][0]["state"] == "expired"
    late = stage.admin.post(f"approvals/{kept.approval.pk}/approve", {"reason": "x"})
    assert late.is_refused(409, "Conflict", "not_waiting")


def test_not_by_the_owner_of_the_agent_nor_by_a_program(stage: Stage) -> None:
    stage.bot.owner_id = stage.mara.pk
    kept = rows.keep(stage.mara, stage.bot)
    place, given = f"approvals/{kept.approval.pk}/approve", {"reason": "x"}
    assert stage.admin.post(place, given).is_refused(403, "Unauthorized", "own_request")
    robot = stage.automation("approver")
    assert robot.post(place, given).is_refused(403, "Unauthorized", "own_request")
    assert stage.agent.post(place, given).is_refused(403, "Unauthorized", "not_allowed")
    assert stage.person("olga", "operator").post(place, given).is_refused(403, "Unauthorized", "not_allowed")
    assert stage.person("ada", "auditor").post(place, given).is_refused(403, "Unauthorized", "only_reads")
    assert stage.stranger.post(place, given).is_refused(404, "NotFound")
    assert stage.admin.post(f"approvals/{ABSENT}/approve", {}).is_refused(404, "NotFound")


def test_exact_arguments_are_for_who_decides(stage: Stage) -> None:
    kept = rows.keep(stage.mara, stage.bot)
    secret = rows.waiting(stage.bot, kept.tool, arguments={"token": SECRET, "title": "x"})
    place = f"approvals/{secret.pk}"
    tom = stage.person("tom", "approver")
    assert tom.get(place).body["arguments"] == {"token": SECRET, "title": "x"}
    readers = (stage.person("olga", "operator"), stage.person("ada", "auditor"), stage.agent)
    for reader in (*readers, stage.automation("approver")):
        for body in (reader.get(place).body, reader.get("approvals").body):
            assert SECRET not in json.dumps(body)
        assert reader.get(place).body["arguments"]["title"] == "x"
    decided = tom.post(f"{place}/refuse", {"reason": "x"})
    assert SECRET not in json.dumps([decided.body, tom.get(place).body, tom.get("approvals").body])


def test_everybody_sees_their_own(stage: Stage) -> None:
    kept = rows.keep(stage.mara, stage.bot)
    assert stage.agent.get("approvals", agent_id=str(stage.bot.pk)).body["total"] == 1
    assert stage.agent.get("approvals", tool_id=ABSENT).body["total"] == 0
    assert stage.agent.get("approvals", state="odd").fields == ["state"]
    for stranger in (stage.stranger, stage.person("guest")):
        assert stranger.get("approvals").body["total"] == 0
        assert stranger.get(f"approvals/{kept.approval.pk}").is_refused(404, "NotFound")
