"""What a run's token is for: its own task, the tasks and runs below it, and what it sends under its run's name."""

from uuid import UUID

import pytest
from django.test import Client

from a2a import dispatching
from a2a.models import Task
from nhi.models import AuditEvent
from supervisor.models import Execution
from tests.a2a import rows
from tests.a2a.run_tokens.conftest import Scene, claimed
from tests.api.callers import Caller
from tests.nhi import cast
from tests.supervisor import rows as supervised

pytestmark = [
    pytest.mark.capability("NHI-20", "A2A-08"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.both_databases,
]
RUNS = pytest.mark.parametrize("which", ["bound", "free"])


def run_of(scene: Scene, which: str) -> UUID:
    return scene.bound_run if which == "bound" else scene.free_run


def test_it_reads_its_own_task_and_is_handed_none(scene: Scene) -> None:
    path = f"a2a/tasks/{scene.task.pk}"
    assert scene.bound.get(path).body["id"] == str(scene.task.pk)
    assert scene.bound.get(f"{path}/trace").body["tasks"][0]["id"] == str(scene.task.pk)
    assert scene.free.get(path).status == 404
    claim = scene.bound.post(f"a2a/inbox/{scene.task.pk}/claim", {})
    assert claim.is_refused(409, "Conflict", "not_for_inbox"), "a run is handed its task by Gatehouse"


@RUNS
def test_what_it_sends_says_which_run_it_was(scene: Scene, which: str) -> None:
    caller, run = scene.run(which), run_of(scene, which)
    task = Task.objects.get(pk=scene.sends(caller))
    assert task.sent_by_run_id == run
    assert task.parent_id == (scene.task.pk if which == "bound" else None)
    event = AuditEvent.objects.get(event="task.sent", subject_id=task.pk)
    assert (event.actor_name, event.details["run"]) == ("writer", str(run))
    for reader in (caller, scene.worker, scene.stage.admin):
        assert reader.get(f"a2a/tasks/{task.pk}").body["sent_by_run_id"] == str(run)
    own = Task.objects.get(pk=scene.sends(scene.worker))
    assert own.sent_by_run_id is None
    assert "run" not in AuditEvent.objects.get(event="task.sent", subject_id=own.pk).details
    assert scene.worker.get(f"a2a/tasks/{own.pk}").body["sent_by_run_id"] is None


@RUNS
def test_a_refused_send_is_on_record_with_its_run(scene: Scene, which: str) -> None:
    stranger = cast.agent("stranger")
    body = {"target_agent_id": str(stranger.pk), "task_type": "check", "input": {}}
    assert scene.run(which).post("a2a/tasks", body).is_refused(404, "NotFound")
    event = AuditEvent.objects.get(event="task.refused", subject_id=stranger.pk)
    assert event.details["run"] == str(run_of(scene, which))


@RUNS
def test_it_goes_on_with_what_it_sent(scene: Scene, which: str) -> None:
    """Follow, answer, have it told to a receiver, cancel: as before, for its own tasks."""
    caller = scene.run(which)
    task_id = scene.sends(caller)
    assert caller.get("a2a/tasks", target_agent_id=str(scene.checker.pk)).body["total"] == 1
    rows.moved(Task.objects.get(pk=task_id), rows.TaskState.WORKING)
    rows.moved(Task.objects.get(pk=task_id), rows.TaskState.INPUT_REQUIRED, "Which of the two?")
    assert caller.get(f"a2a/tasks/{task_id}").body["a2a_state"] == "input_required"
    assert caller.post(f"a2a/tasks/{task_id}/cancel", {}).status == 200


def test_a_later_run_of_the_same_task_finds_what_the_first_one_sent(scene: Scene) -> None:
    task_id = scene.sends(scene.bound)
    rows.moved(scene.task, rows.TaskState.WORKING)
    Execution.objects.filter(pk=scene.bound_run).update(state="idle", status="success")
    Task.objects.filter(pk=scene.task.pk).update(execution_id=None, dispatch_at=scene.task.created_at)
    dispatching.dispatch_due()
    scene.task.refresh_from_db()
    assert scene.task.execution_id not in {None, scene.bound_run}
    [second] = [token for run, token in claimed().items() if run == scene.task.execution_id]
    for path in (f"a2a/tasks/{task_id}", f"a2a/tasks/{scene.task.pk}"):
        assert Caller(second).get(path).status == 200


@RUNS
def test_the_run_of_a_task_that_it_sent_stands_below_it(scene: Scene, which: str) -> None:
    agent = supervised._agent(scene.checker, "cli-checker")
    scene.sends(scene.run(which))
    dispatching.dispatch_due()
    below = Execution.objects.get(agent=agent)
    assert below.parent_id == run_of(scene, which)


@RUNS
def test_it_reads_the_runs_and_sessions_that_it_asked_for(scene: Scene, which: str) -> None:
    caller = scene.run(which)
    cli = supervised._agent(scene.checker, "cli-checker")
    made = caller.post(f"supervisor/agents/{cli.pk}/execute", {"input": "x"})
    assert made.status == 202, made.body
    assert caller.get(f"supervisor/executions/{made.body['id']}").status == 200
    assert caller.get("supervisor/executions").body["total"] == 2
    talks = supervised._agent(scene.checker, "answers", mode="interactive")
    opened = caller.post("supervisor/sessions", {"agent_id": str(talks.pk)})
    assert opened.status == 201, opened.body
    assert caller.get("supervisor/sessions").body["total"] == 1
    assert caller.post(f"supervisor/sessions/{opened.body['id']}/messages", {"text": "Hello"}).status == 201
    other = scene.free if which == "bound" else scene.bound
    for path in (f"supervisor/executions/{made.body['id']}", f"supervisor/sessions/{opened.body['id']}"):
        assert other.get(path).status == 404
        assert scene.worker.get(path).status == 200


@RUNS
def test_two_runs_of_one_agent_do_not_see_each_others_tasks(scene: Scene, which: str) -> None:
    caller, other = (scene.bound, scene.free) if which == "bound" else (scene.free, scene.bound)
    task_id = scene.sends(caller)
    assert other.get(f"a2a/tasks/{task_id}").status == 404
    assert other.post(f"a2a/tasks/{task_id}/cancel", {}).status == 404
    assert task_id not in {row["id"] for row in other.get("a2a/tasks").body["tasks"]}
    assert Task.objects.get(pk=task_id).is_open


def test_the_agents_credential_keeps_all_that_it_had(scene: Scene) -> None:
    """Beside runs of the same agent, a worker takes tasks from the inbox as before."""
    theirs, worker = scene.theirs, scene.worker
    [task] = worker.post("a2a/inbox/claim", {"lease_seconds": 60}).body["tasks"]
    assert task["task_id"] == str(theirs.offered.pk)
    lease = {"lease_token": task["lease_token"]}
    for verb, more in (("heartbeat", {}), ("progress", {"message": "Half"}), ("complete", {"result": {"a": 1}})):
        assert worker.post(f"a2a/inbox/{theirs.offered.pk}/{verb}", {**lease, **more}).status == 200, verb
    listed = {row["id"] for row in worker.get("a2a/tasks").body["tasks"]}
    assert {str(pk) for pk in (theirs.offered.pk, theirs.other_task.pk, theirs.sent.pk, scene.task.pk)} <= listed
    assert worker.post(f"a2a/webhook-secrets/{theirs.secret.pk}/rotate", {}).status == 200
    assert worker.post(f"a2a/tasks/{theirs.sent.pk}/cancel", {}).status == 200
    assert worker.post(f"supervisor/executions/{theirs.run.pk}/cancel", {}).status == 200


def test_its_page_names_the_run_that_sent_it(scene: Scene, client: Client) -> None:
    task_id = scene.sends(scene.free)
    client.force_login(cast.user("ottilie", "operator"))
    page = client.get(f"/admin/a2a/task/{task_id}/").content.decode()
    run = Execution.objects.get(pk=scene.free_run)
    assert "Sent by run" in page
    assert f">{run}</a>" in page
