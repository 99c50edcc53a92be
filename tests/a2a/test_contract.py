"""The REST contract of tasks, to the letter, from both sides."""

from typing import Any

import pytest

from a2a.models import Task
from nhi.actors import SYSTEM
from nhi.identities.identities import set_console_roles
from nhi.models import AuditEvent
from tests.a2a.conftest import ASKED, Stage
from tests.api.callers import ABSENT, calling
from tests.nhi import cast

pytestmark = [pytest.mark.capability("A2A-01"), pytest.mark.both_databases]
ITEM = {
    "id", "source_agent_id", "target_agent_id", "task_type", "state", "result", "error_code", "error_message",
    "created_at", "started_at", "completed_at",
}  # fmt: skip


def test_a_task_is_sent_taken_and_completed(stage: Stage) -> None:
    sent = stage.sends()
    assert sent.status == 201
    assert sent.body == {
        "task_id": sent.body["task_id"], "status": "pending", "created_at": sent.body["created_at"],
    }  # fmt: skip
    task_id = sent.body["task_id"]
    token = stage.claimed(task_id)
    assert stage.tells(task_id, "complete", lease_token=token, result={"summary": "Done."}).status == 200
    read = stage.reads(task_id)
    more = {"a2a_state", "input", "chain", "parent_task_id", "context_id", "deadline", "callback_url", "sent_by_run_id"}
    assert set(read) == ITEM | more
    assert (read["state"], read["a2a_state"], read["result"]) == ("completed", "completed", {"summary": "Done."})
    assert (read["source_agent_id"], read["target_agent_id"]) == (str(stage.planner.pk), str(stage.writer.pk))
    assert (read["input"], read["chain"]) == (ASKED, [{"id": str(stage.planner.pk), "name": "planner"}])
    assert read["created_at"] <= read["started_at"] <= read["completed_at"]
    assert (read["error_code"], read["error_message"]) == (None, None)


@pytest.mark.parametrize("prefix", ["/api/nhi/a2a/tasks", "/a2a/tasks"])
def test_both_places_answer_the_same(stage: Stage, prefix: str) -> None:
    task_id = stage.sent()
    page = stage.sender.get(prefix, limit=1).body
    assert set(page) == {"tasks", "total", "limit", "offset"}
    assert (page["total"], page["limit"], page["offset"]) == (1, 1, 0)
    assert set(page["tasks"][0]) == ITEM
    assert stage.sender.get(f"{prefix}/{task_id}").body["id"] == task_id
    cancelled = stage.sender.post(f"{prefix}/{task_id}/cancel")
    assert cancelled.body == {
        "task_id": task_id, "state": "cancelled", "cancelled_at": stage.reads(task_id)["completed_at"],
    }  # fmt: skip
    assert stage.sender.post(f"{prefix}/{task_id}/cancel").is_refused(409, "Conflict", "task_ended")


def test_the_list_is_newest_first_and_by_filter(stage: Stage) -> None:
    first, second, third = stage.sent(), stage.sent(), stage.sent()
    stage.claimed(second)
    stage.sender.post(f"a2a/tasks/{third}/cancel")

    def listed(**asked: Any) -> list[str]:
        return [one["id"] for one in stage.sender.get("a2a/tasks", **asked).body["tasks"]]

    assert listed() == [third, second, first]
    assert listed(state="pending") == [first]
    assert listed(state="running") == [second]
    assert listed(state="cancelled") == [third]
    assert listed(target_agent_id=str(stage.writer.pk), offset=1, limit=1) == [second]
    assert listed(target_agent_id=ABSENT) == []
    assert stage.sender.get("a2a/tasks", limit=1000).body["limit"] == 100
    assert stage.sender.get("a2a/tasks", state="submitted").is_refused(400, "InvalidParameters")


@pytest.mark.parametrize(
    "given, fields",
    [
        ({"input": None}, ["input"]),
        ({"input": ["a"]}, ["input"]),
        ({"input": "text"}, ["input"]),
        ({"target_agent_id": "writer"}, ["target_agent_id"]),
        ({"task_type": 5}, ["task_type"]),
        ({"task_type": "x" * 201}, ["task_type"]),
        ({"deadline": "2020-01-01T00:00:00Z"}, ["deadline"]),
        ({"deadline": "tomorrow"}, ["deadline"]),
        ({"state": "completed", "result": {}}, ["state", "result"]),
        ({"context_id": "a\nb"}, ["context_id"]),
    ],
)
def test_what_cannot_be_taken_is_named(stage: Stage, given: dict[str, Any], fields: list[str]) -> None:
    refused = stage.sends(**given)
    assert refused.is_refused(400, "InvalidParameters")
    assert refused.fields == fields
    assert not Task.objects.exists()


def test_what_is_missing_is_named_at_once(stage: Stage) -> None:
    refused = stage.sender.post("a2a/tasks", {})
    assert sorted(refused.fields) == ["input", "target_agent_id", "task_type"]


def test_who_sends_follows_from_the_credential(stage: Stage) -> None:
    """Another's name is refused alike whether or not there is such an identity."""
    own = stage.sends(source_agent_id=str(stage.planner.pk))
    assert own.status == 201
    others = [stage.sends(source_agent_id=one) for one in (str(stage.writer.pk), ABSENT)]
    for refused in others:
        assert refused.is_refused(403, "Unauthorized", "source_not_yours")
    assert others[0].body["message"] == others[1].body["message"]


def test_an_admin_may_send_in_anothers_name_on_record(stage: Stage) -> None:
    task_id = stage.sends(stage.admin, source_agent_id=str(stage.planner.pk)).body["task_id"]
    read = stage.reads(task_id)
    assert read["source_agent_id"] == str(stage.planner.pk)
    assert read["chain"] == [{"id": str(stage.planner.pk), "name": "planner"}]
    event = AuditEvent.objects.filter(event="task.sent").get()
    assert (event.actor_name, event.details["in_the_name_of"]) == ("mara", "planner")
    assert stage.sends(stage.admin, source_agent_id=ABSENT).is_refused(404, "NotFound")


def test_what_the_named_one_may_not_nobody_sends_in_its_name(stage: Stage) -> None:
    other = cast.agent("third")
    refused = stage.sends(stage.admin, source_agent_id=str(other.pk))
    assert refused.is_refused(403, "Unauthorized", "no_grant"), "who sees both is told why"
    told = AuditEvent.objects.get(event="task.refused")
    assert (told.actor_name, told.details["in_the_name_of"]) == ("mara", "third")


def test_a_person_sends_as_a_person(stage: Stage) -> None:
    task_id = stage.sends(stage.admin).body["task_id"]
    read = stage.admin.get(f"a2a/tasks/{task_id}").body
    assert read["source_agent_id"] is None
    assert read["chain"] == [{"id": str(stage.mara.pk), "name": "mara"}]


def test_a_service_account_is_a_source(stage: Stage) -> None:
    account = cast.service("nightly")
    cast.nhi_grant(account, stage.writer)
    task_id = stage.sends(calling(account)).body["task_id"]
    assert stage.admin.get(f"a2a/tasks/{task_id}").body["source_agent_id"] == str(account.pk)


def test_secrets_reach_the_agent_and_no_page(stage: Stage) -> None:
    given = {"password": "hunter2-and-more", "document": "minutes.md"}
    task_id = stage.sent(input=given)
    assert stage.reads(task_id)["input"]["password"] != "hunter2-and-more"
    assert stage.claims(task_id).body["input"] == given
    stored = str(list(Task.objects.values())) + str(list(Task.objects.values_list("messages__body", "events__body")))
    assert "hunter2-and-more" not in stored


@pytest.mark.capability("A2A-08")
def test_of_a_task_of_others_nothing_is_told(stage: Stage) -> None:
    task_id = stage.sent()
    for caller in (stage.stranger, calling(cast.user("pat"))):
        absent = caller.get(f"a2a/tasks/{ABSENT}")
        for verb, path in (("GET", ""), ("POST", "/cancel")):
            refused = caller.send(verb, f"a2a/tasks/{task_id}{path}")
            assert refused.is_refused(404, "NotFound")
            assert refused.body["message"] == absent.body["message"]
        assert caller.get("a2a/tasks").body["total"] == 0


def test_both_sides_and_those_who_manage_them_see_a_task(stage: Stage) -> None:
    task_id = stage.sent()
    owner, auditor = calling(cast.user("olga")), calling(cast.user("ada", "auditor"))
    for caller in (stage.sender, stage.worker, stage.admin, owner, auditor):
        assert caller.get(f"a2a/tasks/{task_id}").status == 200
    assert auditor.post(f"a2a/tasks/{task_id}/cancel").is_refused(403, "Unauthorized", "only_reads")
    # Who works on a task gives it up in its inbox; cancelling is its sender's.
    assert stage.worker.post(f"a2a/tasks/{task_id}/cancel").is_refused(403, "Unauthorized")


def test_automation_cancels_by_its_role(stage: Stage) -> None:
    account = cast.service("janitor")
    set_console_roles(actor=SYSTEM, identity=account, roles=["operator"])
    assert calling(account).post(f"a2a/tasks/{stage.sent()}/cancel").status == 200
