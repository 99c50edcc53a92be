"""An agent's own workers: one at a time, for a while, and never after another has it."""

import pytest
from django.db.models.functions import Now

from a2a import inbox, parts, sending, sweeping
from a2a.choices import Role
from a2a.models import Task, TaskEvent, TaskMessage
from nhi import actors
from nhi.models import AuditEvent
from supervisor.access import Caller
from tests.a2a.conftest import ASKED, Stage
from tests.nhi import cast

pytestmark = [pytest.mark.capability("A2A-07"), pytest.mark.both_databases]


def end_lease(task_id: str) -> None:
    """As if nobody had been heard of for the whole of it."""
    Task.objects.filter(pk=task_id).update(lease_until=cast.past(seconds=1))


def waiting(stage: Stage) -> list[str]:
    return [one["task_id"] for one in stage.worker.get("a2a/inbox").body["tasks"]]


def test_what_waits_is_offered_to_its_agent_alone(stage: Stage) -> None:
    first, second = stage.sent(), stage.sent()
    page = stage.worker.get("a2a/inbox").body
    assert set(page) == {"tasks", "total", "limit", "offset"}
    assert [one["task_id"] for one in page["tasks"]] == [first, second]
    assert stage.sender.get("a2a/inbox").body["total"] == 0
    for verb in ("claim", "heartbeat", "progress", "complete", "fail"):
        refused = stage.sender.post(f"a2a/inbox/{first}/{verb}", {"lease_token": "x"})
        assert refused.is_refused(404, "NotFound")


def test_a_claimed_task_is_with_one_worker(stage: Stage) -> None:
    task_id = stage.sent()
    claimed = stage.claims(task_id, lease_seconds=120)
    assert set(claimed.body) == {"task_id", "lease_token", "lease_until", "input", "message", "history"}
    assert claimed.body["input"] == ASKED
    assert claimed.body["message"]["parts"] == [{"data": ASKED, "mediaType": "application/json"}]
    assert waiting(stage) == []
    assert stage.claims(task_id).is_refused(409, "Conflict", "claimed")
    assert stage.reads(task_id)["state"] == "running"


def test_who_takes_a_task_up_after_an_answer_knows_what_it_is_about(stage: Stage) -> None:
    task_id = stage.sent(input={"goal": "Announce it", "password": "correct-horse-battery"})
    token = stage.claimed(task_id)
    assert stage.tells(task_id, "progress", lease_token=token, message="half way").status == 200
    assert stage.tells(task_id, "ask", lease_token=token, message="Who is it for?").status == 200
    caller = Caller(actors.identity(stage.planner))
    answer = parts.message(Role.USER, [parts.text("For customers.")])
    sending.say(caller=caller, task=Task.objects.get(pk=task_id), message=answer)
    again = stage.claims(task_id).body
    assert again["input"] == {"goal": "Announce it", "password": "correct-horse-battery"}
    assert again["message"]["parts"] == [{"text": "For customers."}]
    said = [one["parts"][0].get("text", "the task") for one in again["history"]]
    assert said == ["the task", "half way", "Who is it for?", "For customers."]
    rows = list(TaskMessage.objects.filter(task=task_id).order_by("position"))
    told = {event.body["statusUpdate"]["status"].get("message", {}).get("messageId"): event.at
            for event in TaskEvent.objects.filter(task=task_id, kind="status")}  # fmt: skip
    assert [row.at for row in rows[1:3]] == [told[row.body["messageId"]] for row in rows[1:3]]
    assert [row.at for row in rows] == sorted(row.at for row in rows)


def test_the_next_are_taken_the_oldest_first_and_each_once(stage: Stage) -> None:
    sent = [stage.sent() for _ in range(4)]
    first = stage.worker.post("a2a/inbox/claim", {"limit": 3, "lease_seconds": 120})
    assert first.status == 200
    assert [one["task_id"] for one in first.body["tasks"]] == sent[:3]
    assert first.body["tasks"][0].keys() == {"task_id", "lease_token", "lease_until", "input", "message", "history"}
    assert [one["task_id"] for one in stage.worker.post("a2a/inbox/claim", {}).body["tasks"]] == sent[3:]
    assert stage.worker.post("a2a/inbox/claim", {}).body == {"tasks": []}
    token = first.body["tasks"][1]["lease_token"]
    assert stage.tells(sent[1], "complete", lease_token=token, result={}).status == 200
    assert stage.stranger.post("a2a/inbox/claim", {}).body == {"tasks": []}


@pytest.mark.parametrize(
    ("asked", "field"), [({"limit": 0}, "limit"), ({"limit": 21}, "limit"), ({"lease_seconds": 0}, "lease_seconds")]
)
def test_the_next_are_taken_within_limits(stage: Stage, asked: dict[str, int], field: str) -> None:
    task_id = stage.sent()
    refused = stage.worker.post("a2a/inbox/claim", asked)
    assert refused.is_refused(400, "InvalidParameters")
    assert refused.fields == [field]
    assert waiting(stage) == [task_id]


def test_a_claim_of_the_next_offers_what_a_dead_worker_held(stage: Stage) -> None:
    task_id = stage.sent()
    stage.worker.post("a2a/inbox/claim", {})
    end_lease(task_id)
    assert [one["task_id"] for one in stage.worker.post("a2a/inbox/claim", {}).body["tasks"]] == [task_id]


@pytest.mark.parametrize("seconds", [0, 3601, -5, "60", True])
def test_a_lease_has_a_length(stage: Stage, seconds: object) -> None:
    refused = stage.claims(stage.sent(), lease_seconds=seconds)
    assert refused.is_refused(400, "InvalidParameters")
    assert refused.fields == ["lease_seconds"]


def test_a_lease_that_ended_is_offered_again_and_the_first_is_fenced_off(stage: Stage) -> None:
    task_id = stage.sent()
    old = stage.claimed(task_id)
    end_lease(task_id)
    assert waiting(stage) == [task_id]
    new = stage.claimed(task_id)
    said = stage.tells(task_id, "heartbeat", lease_token="not-the-one").body["message"]
    assert said.startswith("This lease token is not the one of the claim that holds the task")
    for verb, more in (("heartbeat", {}), ("progress", {}), ("complete", {"result": {}})):
        assert stage.tells(task_id, verb, lease_token=old, **more).is_refused(409, "Conflict", "stale_lease")
    assert stage.tells(task_id, "complete", lease_token=new, result={"by": "new"}).status == 200
    assert stage.reads(task_id)["result"] == {"by": "new"}


def test_a_late_result_counts_while_nobody_else_has_the_task(stage: Stage) -> None:
    task_id = stage.sent()
    token = stage.claimed(task_id)
    end_lease(task_id)
    assert stage.tells(task_id, "complete", lease_token=token, result={}).status == 200


@pytest.mark.parametrize("verb", ["heartbeat", "progress"])
def test_a_sign_of_life_keeps_it(stage: Stage, verb: str) -> None:
    task_id = stage.sent()
    token = stage.claimed(task_id)
    end_lease(task_id)
    told = stage.tells(task_id, verb, lease_token=token)
    assert (told.status, told.body["state"]) == (200, "running")
    assert waiting(stage) == []
    assert Task.objects.filter(pk=task_id, lease_until__gt=Now()).exists()


def test_progress_is_an_event(stage: Stage) -> None:
    task_id = stage.sent()
    token = stage.claimed(task_id)
    stage.tells(task_id, "progress", lease_token=token, message="Half of it")
    last = TaskEvent.objects.filter(task_id=task_id).last()
    assert last is not None
    assert last.body["statusUpdate"]["status"]["message"]["parts"] == [{"text": "Half of it"}]


def test_a_task_is_given_up_with_words(stage: Stage) -> None:
    task_id = stage.sent()
    token = stage.claimed(task_id)
    failed = {"error_code": "unreadable", "error_message": "It is encrypted."}
    assert stage.tells(task_id, "fail", lease_token=token, **failed).status == 200
    read = stage.reads(task_id)
    assert (read["state"], read["error_code"], read["error_message"]) == ("failed", "unreadable", "It is encrypted.")
    assert read["result"] is None
    assert stage.tells(task_id, "complete", lease_token=token, result={}).is_refused(409, "Conflict", "task_ended")


def test_whoever_works_on_a_cancelled_task_hears_so(stage: Stage) -> None:
    task_id = stage.sent()
    token = stage.claimed(task_id)
    stage.sender.post(f"a2a/tasks/{task_id}/cancel")
    refused = stage.tells(task_id, "heartbeat", lease_token=token)
    assert refused.is_refused(409, "Conflict", "task_ended")
    assert refused.body["details"]["state"] == "cancelled"
    assert stage.claims(task_id).is_refused(409, "Conflict", "task_ended")


def test_what_nobody_brings_back_is_given_up(stage: Stage) -> None:
    task_id = stage.sent()
    for _ in range(inbox.MOST_CLAIMS):
        sweeping.sweep()
        stage.claimed(task_id)
        end_lease(task_id)
    sweeping.sweep()
    read = stage.reads(task_id)
    assert (read["state"], read["error_code"]) == ("failed", "lease_lost")


@pytest.mark.capability("A2A-12")
def test_a_deadline_ends_it(stage: Stage) -> None:
    task_id, other = stage.sent(deadline=cast.future(hours=1).isoformat()), stage.sent()
    sweeping.sweep()
    assert stage.reads(task_id)["state"] == "pending"
    Task.objects.filter(pk=task_id).update(deadline=cast.past(seconds=1))
    sweeping.sweep()
    read = stage.reads(task_id)
    assert (read["state"], read["error_code"]) == ("failed", "deadline_exceeded")
    assert stage.reads(other)["state"] == "pending"


@pytest.mark.capability("NHI-03")
def test_the_kill_switch_cancels_what_an_identity_works_on_and_asked_for(open_stage: Stage) -> None:
    stage = open_stage
    task_id = stage.sent()
    stage.claimed(task_id)
    stopped = stage.admin.post(f"identities/{stage.planner.pk}/suspend", {"reason": "Leaked"})
    assert stopped.body["stopped"]["tasks"] == 1
    read = stage.admin.get(f"a2a/tasks/{task_id}").body
    assert (read["state"], read["error_code"]) == ("cancelled", "stopped")
    # Who stopped it and why is for the record; who sent it is told neither.
    assert read["error_message"] == "Cancelled, since planner was stopped."
    recorded = AuditEvent.objects.get(event="task.cancelled", subject_id=task_id)
    assert recorded.reason == "planner was suspended by mara: Leaked"


def test_pieces_are_handed_over_as_they_are_made(stage: Stage) -> None:
    task_id = stage.sent()
    token = stage.claimed(task_id)
    for text, more in (("All ", {"last": False}), ("agreed.", {"append": True})):
        piece = {"artifactId": "summary", "name": "Summary", "parts": [{"text": text}]}
        assert stage.tells(task_id, "artifacts", lease_token=token, artifact=piece, **more).status == 200
    assert stage.tells(task_id, "complete", lease_token=token, result=None).status == 200
    assert stage.reads(task_id)["result"] == {"parts": [{"text": "All "}, {"text": "agreed."}]}
    told = list(TaskEvent.objects.filter(task_id=task_id, kind="artifact").values_list("body", flat=True))
    assert [(one["artifactUpdate"]["append"], one["artifactUpdate"]["lastChunk"]) for one in told] == [
        (False, False), (True, True),
    ]  # fmt: skip


def test_what_was_made_is_an_artifact(stage: Stage) -> None:
    task_id = stage.sent()
    token = stage.claimed(task_id)
    refused = stage.tells(task_id, "artifacts", lease_token=token, artifact={"parts": [{"text": "a", "url": "b"}]})
    assert refused.is_refused(400, "InvalidParameters")
    assert refused.fields == ["artifact.artifactId", "artifact.parts[0]"]


def test_who_asks_back_gives_the_task_away_until_it_is_answered(stage: Stage) -> None:
    task_id = stage.sent()
    token = stage.claimed(task_id)
    assert stage.tells(task_id, "ask", lease_token=token, message="Which of the two?").status == 200
    assert (stage.reads(task_id)["state"], stage.reads(task_id)["a2a_state"]) == ("running", "input_required")
    assert waiting(stage) == []
    assert stage.claims(task_id).is_refused(409, "Conflict", "claimed")
    assert stage.tells(task_id, "progress", lease_token=token).is_refused(409, "Conflict", "stale_lease")


def test_an_answer_and_a_refusal_end_a_task(stage: Stage) -> None:
    answered, declined = stage.sent(), stage.sent()
    token = stage.claimed(answered)
    assert stage.tells(answered, "answer", lease_token=token, parts=[{"text": "Thursday."}]).status == 200
    assert (stage.reads(answered)["state"], stage.reads(answered)["result"]) == ("completed", {"text": "Thursday."})
    token = stage.claimed(declined)
    assert stage.tells(declined, "reject", lease_token=token, message="That is a picture.").status == 200
    read = stage.reads(declined)
    assert (read["state"], read["a2a_state"], read["error_code"]) == ("failed", "rejected", "rejected")


def test_people_have_no_inbox(stage: Stage) -> None:
    """Who works for an agent and shows a token of their own is told so, and does not wait for ever."""
    assert stage.admin.post("a2a/inbox/claim", {}).is_refused(403, "Unauthorized", "identities_only")
