"""Audit events over the API: filtered, by cursor, each to whom it concerns."""

import uuid
from datetime import datetime
from typing import Any

import pytest

from nhi.actors import SYSTEM
from nhi.audit import events
from nhi.models import AuditEvent
from tests.api.callers import Caller, Reply
from tests.api.conftest import Stage

pytestmark = pytest.mark.capability("AUD-01")


def listed(answer: Reply) -> list[dict[str, Any]]:
    assert answer.status == 200, answer.body
    assert set(answer.body) == {"audit_events", "next_cursor"}
    return list(answer.body["audit_events"])


def test_what_was_done_is_there(stage: Stage) -> None:
    mine = str(uuid.uuid4())
    path = f"identities/{stage.bot.pk}/suspend"
    stage.admin.send("POST", path, '{"reason": "Odd calls"}', **{"X-Request-ID": mine})
    row = listed(stage.admin.get("audit-events"))[0]
    assert (row["event"], row["actor_name"], row["subject_id"]) == ("identity.suspended", "mara", str(stage.bot.pk))
    assert (row["before"], row["after"], row["reason"]) == ({"state": "active"}, {"state": "suspended"}, "Odd calls")
    assert (row["request_id"], row["source"]) == (mine, "127.0.0.1")
    assert row["at"].endswith("Z")
    assert listed(stage.admin.get("audit-events", request_id=mine)) == [row]


def test_every_write_over_the_api_is_on_record(stage: Stage) -> None:
    made = stage.admin.post("identities", {"kind": "agent", "name": "new"}).body
    stage.admin.patch(f"identities/{made['id']}", {"team": "x"})
    issued = stage.admin.post(f"identities/{made['id']}/credentials").body
    rotated = stage.admin.post(f"credentials/{issued['id']}/rotate").body
    stage.admin.post(f"credentials/{rotated['id']}/revoke", {"reason": "x"})
    recorded = [row["event"] for row in listed(stage.admin.get("audit-events", subject_id=made["id"]))]
    assert recorded == [
        "credential.revoked",
        "credential.rotated",
        "credential.issued",
        "identity.changed",
        "identity.created",
    ]
    assert issued["token"] not in str(AuditEvent.objects.values_list("after", "details"))


def test_a_cursor_walks_back_without_gaps(stage: Stage) -> None:
    expected = [str(pk) for pk in AuditEvent.objects.order_by("-at", "-id").values_list("pk", flat=True)]
    seen, cursor = [], None
    while True:
        answer = stage.admin.get("audit-events", limit=3, **({"cursor": cursor} if cursor else {}))
        page = listed(answer)
        assert len(page) <= 3
        seen += [row["id"] for row in page]
        cursor = answer.body["next_cursor"]
        if cursor is None:
            break
    assert seen == expected


def test_events_of_one_moment_are_not_lost_between_pages(stage: Stage) -> None:
    for _ in range(5):
        events.write("person.changed", actor=SYSTEM, subject=stage.mara)
    first = listed(stage.admin.get("audit-events", event="person.changed"))
    one_by_one, cursor = [], {}
    for _ in range(5):
        answer = stage.admin.get("audit-events", event="person.changed", limit=1, **cursor)
        one_by_one += listed(answer)
        cursor = {"cursor": answer.body["next_cursor"]}
    assert one_by_one == first


@pytest.mark.parametrize("cursor", ["x", "", "é", "A" * 40, "AAAA====", "x" * 5000, "a\x00"])
def test_a_cursor_that_is_not_ours(stage: Stage, cursor: str) -> None:
    answer = stage.admin.get("audit-events", cursor=cursor)
    assert answer.is_refused(400, "InvalidParameters")
    assert answer.fields == ["cursor"]


def test_a_cursor_that_was_changed(stage: Stage) -> None:
    cursor = stage.admin.get("audit-events", limit=1).body["next_cursor"]
    changed = cursor[:-2] + ("AA" if cursor[-2:] != "AA" else "BB")
    assert stage.admin.get("audit-events", cursor=changed).is_refused(400, "InvalidParameters")


def test_the_list_is_filtered(stage: Stage) -> None:
    stage.admin.post(f"identities/{stage.bot.pk}/suspend", {"reason": "x"})
    by_actor = listed(stage.admin.get("audit-events", actor_id=str(stage.mara.pk)))
    assert [row["event"] for row in by_actor] == ["identity.suspended"]
    at = by_actor[0]["at"]
    assert listed(stage.admin.get("audit-events", since=at, until=at)) == []
    assert at in [row["at"] for row in listed(stage.admin.get("audit-events", since=at))]
    assert at not in [row["at"] for row in listed(stage.admin.get("audit-events", until=at))]
    unescaped = Caller(stage.admin.token).get(f"/api/nhi/audit-events?since={at.replace('Z', '+00:00')}")
    assert at in [row["at"] for row in listed(unescaped)]
    assert datetime.fromisoformat(at)


@pytest.mark.parametrize(
    "query", [{"event": "no.such"}, {"actor_id": "mara"}, {"since": "yesterday"}, {"until": "2026-01-01"}, {"limit": 0}]
)
def test_a_question_that_makes_no_sense(stage: Stage, query: dict[str, Any]) -> None:
    answer = stage.admin.get("audit-events", **query)
    assert answer.is_refused(400, "InvalidParameters")
    assert answer.fields == list(query)


def test_people_see_what_concerns_them_and_agents_see_nothing(stage: Stage) -> None:
    stage.admin.post(f"identities/{stage.bot.pk}/suspend", {"reason": "x"})
    stage.admin.post(f"identities/{stage.bot.pk}/activate", {"reason": "x"})
    assert listed(stage.agent.get("audit-events")) == []
    uma = stage.person("uma", "operator")
    rows = listed(uma.get("audit-events"))
    assert rows
    assert all("uma" in (row["actor_name"], row["subject_name"]) for row in rows)
    everything = listed(stage.person("ada", "auditor").get("audit-events", limit=100))
    assert len(everything) > len(rows)


def test_a_name_cannot_forge_a_line(stage: Stage) -> None:
    stage.admin.post(f"identities/{stage.bot.pk}/suspend", {"reason": 'x\n{"status":"success"}'})
    stage.admin.post(f"identities/{stage.bot.pk}/suspend", {"reason": "x"})
    assert all("\n" not in row["reason"] for row in listed(stage.admin.get("audit-events")))
