"""Budgets and breakers over the API."""

from typing import Any

import pytest

from mcp.models import Breaker, Budget
from tests.api.callers import ABSENT
from tests.api.conftest import Stage
from tests.api.mcp import rows
from tests.api.mcp.conftest import Body
from tests.nhi import cast

pytestmark = pytest.mark.capability("MCP-08")


def test_a_budget_is_set_read_changed_and_removed(stage: Stage) -> None:
    given = {"scope": "agent", "target_id": str(stage.bot.pk), "requests_per_second": 2.5, "burst_size": 5}
    made = stage.admin.post("mcp/budgets", {**given, "timeout": "7s", "calls_per_hour": 9})
    assert made.status == 201
    wanted = {
        **given, "timeout": "7s", "calls_per_hour": 9, "daily_quota": 0, "concurrency_limit": None,
        "created_by": "mara", "used": {"day": 0, "hour": 0, "in_flight": 0, "tokens": 5.0},
    }  # fmt: skip
    assert {name: made.body[name] for name in wanted} == wanted
    place = f"mcp/budgets/{made.body['id']}"
    assert stage.admin.get(place).body == made.body
    assert stage.admin.get("mcp/budgets", scope="agent", target_id=str(stage.bot.pk)).body["budgets"] == [made.body]
    assert stage.admin.get("mcp/budgets", scope="server").body["total"] == 0
    changed = stage.admin.patch(place, {"timeout": None, "daily_quota": 100, "requests_per_second": 4})
    said = {name: changed.body[name] for name in ("timeout", "daily_quota", "requests_per_second")}
    assert said == {"timeout": None, "daily_quota": 100, "requests_per_second": 4.0}
    gone = stage.admin.send("DELETE", place)
    assert (gone.status, gone.body["id"]) == (200, made.body["id"])
    assert stage.admin.get(place).is_refused(404, "NotFound")
    assert stage.admin.send("DELETE", place).is_refused(404, "NotFound")
    assert not Budget.objects.exists()


def test_each_scope_has_its_targets(stage: Stage) -> None:
    kept = rows.keep(stage.mara, stage.bot)
    grant = cast.tool_grant(stage.bot, kept.tool.identity)
    targets = {"server": kept.server.pk, "tool": kept.tool.pk, "agent": stage.bot.pk, "grant": grant.pk}
    Budget.objects.all().delete()
    for scope, target in targets.items():
        given = {"scope": scope, "target_id": str(target), "daily_quota": 1}
        made = stage.admin.post("mcp/budgets", given)
        assert (made.status, bool(made.body["target_name"])) == (201, True), scope
        assert stage.admin.post("mcp/budgets", given).is_refused(409, "Conflict", "duplicate")
        other = next(one for name, one in targets.items() if name != scope)
        wrong = stage.admin.post("mcp/budgets", {**given, "target_id": str(other)})
        assert wrong.fields == ["target_id"], scope
    assert stage.admin.get("mcp/budgets").body["total"] == 4


WRONG: list[tuple[Body, list[str]]] = [
    ({"scope": "house"}, ["scope"]),
    ({"target_id": ABSENT}, ["target_id"]),
    ({"target_id": "x"}, ["target_id"]),
    ({"requests_per_second": 0}, ["requests_per_second"]),
    ({"requests_per_second": "5"}, ["requests_per_second"]),
    ({"burst_size": 5}, ["burst_size"]),
    ({"concurrency_limit": 0}, ["concurrency_limit"]),
    ({"concurrency_limit": 1.5}, ["concurrency_limit"]),
    ({"timeout": "0s"}, ["timeout"]),
    ({"timeout": []}, ["timeout"]),
    ({"daily_quota": -1}, ["daily_quota"]),
    ({"daily_quota": None}, ["daily_quota"]),
    ({"calls_per_hour": 2**40}, ["calls_per_hour"]),
    ({"used": {}}, ["used"]),
    ({"calls_per_hour": 0, "concurrency_limit": -1}, ["concurrency_limit", "calls_per_hour"]),
]


@pytest.mark.parametrize("wrong, fields", WRONG, ids=str)
def test_what_is_wrong_is_named(stage: Stage, wrong: Body, fields: list[str]) -> None:
    given: Body = {"scope": "agent", "target_id": str(stage.bot.pk), "daily_quota": 1, **wrong}
    answer = stage.admin.post("mcp/budgets", given)
    assert answer.is_refused(400, "InvalidParameters")
    assert answer.fields == fields
    assert not Budget.objects.exists()


def test_a_budget_without_a_limit_is_none(stage: Stage) -> None:
    given = {"scope": "agent", "target_id": str(stage.bot.pk)}
    assert stage.admin.post("mcp/budgets", given).is_refused(400, "InvalidParameters")
    made = stage.admin.post("mcp/budgets", {**given, "daily_quota": 1}).body
    assert stage.admin.patch(f"mcp/budgets/{made['id']}", {"daily_quota": 0}).is_refused(400, "InvalidParameters")
    assert stage.admin.patch(f"mcp/budgets/{made['id']}", {"scope": "tool"}).fields == ["scope"]


@pytest.mark.parametrize("path", ["mcp/budgets", "mcp/breakers"])
def test_who_may_look(stage: Stage, path: str) -> None:
    for reader in (stage.admin, stage.person("ada", "auditor"), stage.person("olga", "operator")):
        assert reader.get(path).status == 200
    for stranger in (stage.agent, stage.person("guest")):
        assert stranger.get(path).is_refused(403, "Unauthorized", "not_allowed")


def test_who_may_set(stage: Stage) -> None:
    kept = rows.keep(stage.mara, stage.bot)
    place = f"mcp/budgets/{kept.budget.pk}"
    olga, tom, ada = stage.person("olga", "operator"), stage.person("tom", "approver"), stage.person("ada", "auditor")
    for caller in (olga, tom):
        assert caller.post("mcp/budgets", {}).is_refused(403, "Unauthorized", "not_allowed")
        assert caller.patch(place, {}).is_refused(403, "Unauthorized", "not_allowed")
        assert caller.send("DELETE", place).is_refused(403, "Unauthorized", "not_allowed")
    assert ada.send("DELETE", place).is_refused(403, "Unauthorized", "only_reads")
    assert ada.send("DELETE", f"mcp/budgets/{ABSENT}").is_refused(403, "Unauthorized", "only_reads")
    assert stage.agent.send("DELETE", place).is_refused(404, "NotFound")


@pytest.mark.capability("MCP-09")
def test_a_breaker_is_shown_and_reset(stage: Stage) -> None:
    rows.keep(stage.mara, stage.bot)
    olga = stage.person("olga", "operator")
    wanted: dict[str, Any] = {
        "service_name": "kept", "state": "CLOSED", "failure_count": 0, "failure_threshold": 5,
        "last_failure_time": None, "recovery_timeout": "PT30S",
        "scope": "server", "identity_id": None, "identity_name": "",
    }  # fmt: skip
    shown = olga.get("mcp/breakers").body["breakers"][0]
    assert {name: shown[name] for name in wanted} == wanted
    assert set(shown) == {*wanted, "last_state_change"}
    place, given = "mcp/breakers/kept/reset", {"reason": "It was restarted"}
    assert olga.post(place, given).is_refused(409, "Conflict", "breaker_closed")
    Breaker.objects.update(state="OPEN", failure_count=5)
    assert olga.get("mcp/breakers", state="OPEN").body["total"] == 1
    assert olga.get("mcp/breakers", state="CLOSED").body["total"] == 0
    assert olga.get("mcp/breakers", state="broken").fields == ["state"]
    assert stage.person("tom", "approver").post(place, given).is_refused(403, "Unauthorized", "not_allowed")
    assert olga.post(place, {}).fields == ["reason"]
    done = olga.post(place, given)
    assert (done.status, done.body["state"], done.body["failure_count"]) == (200, "CLOSED", 0)
    assert olga.post("mcp/breakers/nothing/reset", given).is_refused(404, "NotFound")
    own = {**given, "identity_id": str(stage.bot.pk)}
    assert olga.post(place, own).is_refused(404, "NotFound"), "this identity has no breaker of its own"
    assert stage.agent.post(place, given).is_refused(404, "NotFound")
