"""A limit that limits nothing is refused on every path that saves one, and those of before are shown at Home."""

import io
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from common.errors import InvalidInput
from nhi.access import bulk, grants
from nhi.actors import SYSTEM
from nhi.models import ToolPermission
from tests.api.conftest import Stage
from tests.mcp.behind import stand_behind_a_server
from tests.nhi import cast
from tests.services.upgrades import back_at

pytestmark = [pytest.mark.capability("NHI-06"), pytest.mark.both_databases]
SCHEMA = {"type": "object", "properties": {"project": {"type": "string"}, "title": {"type": "string"}}}
VOID = {"project": "alpha"}
MEANT = '{"properties": {"project": {"const": "alpha"}}, "required": ["project"]}'
FINE = {"properties": {"project": {"const": "alpha"}}, "required": ["project"]}


@pytest.fixture
def stage(stage: Stage) -> Stage:
    stand_behind_a_server([stage.read], schema=SCHEMA)
    return stage


def asked(stage: Stage, limit: Any) -> dict[str, Any]:
    ends = {"agent_id": str(stage.bot.pk), "tool_id": str(stage.read.pk)}
    return {**ends, "reason": "For the test", "allowed_parameters": limit}


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (VOID, f"Did you mean {MEANT}?"),
        ({"properties": {"projct": {"const": "alpha"}}, "required": ["projct"]}, f"Did you mean {MEANT}?"),
        ({"type": "object"}, "says nothing about the arguments"),
        ({"properties": {"project": {}}}, "says nothing about the arguments"),
        ({"propertis": {"project": {"const": "alpha"}}}, "`propertis` is no keyword"),
    ],
)
def test_it_is_refused_over_the_api_with_what_was_meant(stage: Stage, limit: Any, words: str) -> None:
    answer = stage.admin.post("permissions/tools", asked(stage, limit))
    assert answer.is_refused(400, "InvalidParameters")
    assert answer.fields == ["allowed_parameters"]
    assert words in answer.body["details"]["fields"][0]["message"]
    assert not ToolPermission.objects.exists()


@pytest.mark.parametrize(("limit", "kept"), [(None, None), ({}, None), (FINE, FINE)])
def test_no_limit_and_one_that_limits_are_taken(stage: Stage, limit: Any, kept: Any) -> None:
    answer = stage.admin.post("permissions/tools", asked(stage, limit))
    assert (answer.status, answer.body["allowed_parameters"]) == (201, kept)


def test_a_tool_that_nobody_described_may_take_any_property(stage: Stage) -> None:
    limit = {"properties": {"anything": {"const": 1}}}
    answer = stage.admin.post("permissions/tools", {**asked(stage, limit), "tool_id": str(stage.write.pk)})
    assert answer.status == 201


def held_from_before(stage: Stage) -> ToolPermission:
    grant = cast.tool_grant(stage.bot, stage.read)
    ToolPermission.objects.filter(pk=grant.pk).update(allowed_parameters=VOID, limits_nothing=True)
    return ToolPermission.objects.select_related("agent", "tool").get(pk=grant.pk)


def test_one_of_before_is_not_given_again_nor_copied(stage: Stage) -> None:
    old = held_from_before(stage)
    with pytest.raises(InvalidInput, match="allowed_parameters"):
        grants.renew(actor=cast.admin(), grant=old, expires_at=None, reason="For the test")
    with pytest.raises(InvalidInput, match="allowed_parameters"):
        grants.change_limits(actor=cast.admin(), grant=old, limits={"max_calls_per_hour": 5}, reason="For the test")
    [item] = bulk.copy_access(actor=cast.admin(), source=stage.bot, target=stage.other)
    assert (item.result, "Did you mean" in item.message) == ("refused", True)
    changed = grants.change_limits(
        actor=cast.admin(), grant=old, limits={"allowed_parameters": FINE}, reason="For the test"
    )
    assert (changed.allowed_parameters, changed.limits_nothing) == (FINE, False)


def test_each_tool_of_many_is_judged_by_itself(stage: Stage) -> None:
    """Of two tools one takes no `other`."""
    client = Client()
    client.force_login(stage.mara)
    fields = {
        "agents": "bot", "what": "tools", "tools": "github__read\ngithub__write", "ends": "never", "reason": "Trial",
        "parameters": '{"required": ["other"]}',
    }  # fmt: skip
    page = reverse("admin:bulk_grant")
    seen = client.post(page, {**fields, "do": "preview"}).context["seen"]
    answer = client.post(page, {**fields, "do": "give", "seen": seen})
    results = {line.item.name: (line.item.result, line.item.message) for line in answer.context["results"]}
    assert results["github__write"][0] == "created"
    assert results["github__read"][0] == "refused"
    assert "github__read has no argument `other`" in results["github__read"][1]


def test_a_command_gives_no_limit_and_renews_none(stage: Stage) -> None:
    said = io.StringIO()
    call_command("give_access", "agent/bot", "tool/github__read", "--days", "30", "--reason", "Trial", stdout=said)
    assert ToolPermission.objects.get().allowed_parameters is None


def test_home_counts_them_and_leads_to_their_list(stage: Stage) -> None:
    cast.tool_grant(stage.other, stage.read, allowed_parameters=FINE)
    held_from_before(stage)
    client = Client()
    client.force_login(stage.mara)
    [card] = [card for card in client.get("/admin/").context["cards"] if card["need"].key == "limits_void"]
    assert card["words"] == "1 grant has a limit that limits nothing"
    page = client.get(card["need"].url).content.decode()
    assert "bot" in page
    assert "other" not in page.partition("<tbody")[2]
    grants.revoke(actor=SYSTEM, grant=ToolPermission.objects.get(limits_nothing=True), reason="For the test")


@pytest.mark.django_db(transaction=True)
def test_an_upgrade_marks_them_and_they_keep_what_they_did(open_stage: Stage) -> None:
    stage = open_stage
    limits = [VOID, {"type": "object"}, {}, FINE, None]
    tools = [cast.tool(f"github__tool{number}") for number in range(len(limits))]
    given = [cast.tool_grant(stage.bot, tool) for tool in tools]
    gone = cast.tool_grant(stage.other, tools[0])
    for grant, limit in zip([*given, gone], [*limits, VOID], strict=True):
        ToolPermission.objects.filter(pk=grant.pk).update(allowed_parameters=limit)
    grants.revoke(actor=SYSTEM, grant=gone, reason="For the test")
    with back_at("nhi", "0008_seen"):
        pass
    rows = {row.pk: row for row in ToolPermission.objects.all()}
    assert [rows[grant.pk].limits_nothing for grant in given] == [True, True, True, False, False]
    assert [rows[grant.pk].allowed_parameters for grant in given] == limits
    assert not rows[gone.pk].limits_nothing
