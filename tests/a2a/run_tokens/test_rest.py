"""A run's token at every path of the API: what is not its run's is not there, and nothing of it changes."""

import json
import re
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from django.apps import apps
from django.db.models import Model
from django.urls import URLPattern

from a2a.api.urls import bare, urlpatterns
from a2a.models import Task
from common.db import clock
from mcp.api import urls as of_gateway
from mcp.models import Call
from nhi.api import urls as of_identities
from nhi.audit import invocations
from nhi.credentials import run_tokens
from supervisor.api import urls as of_supervisor
from tests.a2a.run_tokens.conftest import Scene
from tests.api.callers import ABSENT, Caller

pytestmark = [
    pytest.mark.capability("A2A-08", "NHI-20"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.both_databases,
]
VERBS = ("GET", "POST", "PUT", "PATCH", "DELETE")
RUNS = pytest.mark.parametrize("which", ["bound", "free"])
#: The ids in these are another identity's.
OTHERS = re.compile(r"(a2a/(cards|endpoints|runtimes|agent-card)|identities)\b")
#: The cost and the traces of requests, which are written whatever comes of them.
NOTED = {"RefusedAuthentication", "Credential", "AuditEvent", "Process"}


def paths(scene: Scene) -> Iterator[tuple[str, str]]:
    """Each path that names something, with the ids of what is not the run's; and its verbs."""
    theirs = scene.theirs
    ids: dict[str, list[UUID]] = {
        "task_id": [theirs.offered.pk, theirs.other_task.pk, theirs.sent.pk],
        "execution_id": [theirs.run.pk],
        "session_id": [theirs.session.pk],
        "schedule_id": [theirs.schedule.pk],
        "secret_id": [theirs.secret.pk],
        "delivery_id": [theirs.delivery.pk],
        "call_id": [theirs.call.pk],
        "approval_id": [theirs.approval.pk],
        "credential_id": [theirs.credential.pk],
        "identity_id": [scene.stage.planner.pk],
    }
    below_root = [f"/{pattern.pattern}" for pattern in bare]
    below_api = [str(pattern.pattern) for pattern in patterns()]
    for pattern in (*below_api, *below_root):
        named = re.findall(r"<id:(\w+)>", pattern)
        for pk in ids.get(named[0], []) if len(named) == 1 else []:
            yield pattern, re.sub(r"<[^>]+>", str(pk), pattern)


def patterns() -> list[URLPattern]:
    found = [*urlpatterns, *of_supervisor.urlpatterns, *of_identities.urlpatterns, *of_gateway.urlpatterns]
    assert all(isinstance(pattern, URLPattern) for pattern in found)
    return found


def everything() -> dict[str, list[Any]]:
    """Every row of the product, but for what any request leaves."""
    models: list[type[Model]] = [
        model for name in ("nhi", "mcp", "supervisor", "a2a") for model in apps.get_app_config(name).get_models()
    ]
    return {
        model.__name__: sorted(map(str, model._default_manager.values_list()))
        for model in models
        if model.__name__ not in NOTED
    }


@RUNS
def test_no_path_leads_to_what_is_not_the_runs(scene: Scene, which: str) -> None:
    caller, before, walked = scene.run(which), everything(), 0
    for pattern, path in paths(scene):
        for verb in VERBS:
            reply = caller.send(verb, path, "" if verb == "GET" else "{}")
            if verb == "GET" and pattern.startswith("a2a/agent-card"):
                continue  # a public card, or none
            if reply.status == 405:
                continue
            walked += 1
            assert reply.status in {403, 404}, (verb, path, reply.body)
            if not pattern.startswith("identities"):
                assert reply.status == 404, (verb, path, reply.body)
                assert same_as_absent(caller, verb, pattern, reply.body), (verb, path)
    assert walked > 60
    assert everything() == before


def same_as_absent(caller: Caller, verb: str, pattern: str, body: Any) -> bool:
    absent = caller.send(verb, re.sub(r"<[^>]+>", ABSENT, pattern), "" if verb == "GET" else "{}").body
    return {**absent, "request_id": ""} == {**body, "request_id": ""}


def test_the_agents_credential_reads_all_of_it(scene: Scene) -> None:
    """Else the test above would prove nothing."""
    read = 0
    for pattern, path in paths(scene):
        if pattern.endswith("_id>") and not OTHERS.match(pattern):
            reply = scene.worker.send("GET", path)
            read += reply.status == 200
            assert reply.status in {200, 405}, path
    assert read > 10


@RUNS
def test_every_list_holds_the_runs_own_alone(scene: Scene, which: str) -> None:
    caller = scene.run(which)
    run = scene.bound_run if which == "bound" else scene.free_run
    own = [scene.task.pk] if which == "bound" else []
    lists: dict[str, tuple[str, list[UUID]]] = {
        "a2a/tasks": ("tasks", own),
        "/a2a/tasks": ("tasks", own),
        "a2a/inbox": ("tasks", []),
        "a2a/webhook-secrets": ("webhook_secrets", []),
        "a2a/deliveries": ("deliveries", []),
        "supervisor/executions": ("executions", [run]),
        "supervisor/sessions": ("sessions", []),
        "supervisor/schedules": ("schedules", []),
        "mcp/invocations": ("invocations", []),
        "approvals": ("approvals", []),
    }
    for path, (key, wanted) in lists.items():
        body = caller.get(path).body
        assert [row["id"] for row in body[key]] == [str(pk) for pk in wanted], path
        assert body.get("total", len(wanted)) == len(wanted), path
        assert scene.worker.get(path).body[key], path
    assert caller.get("mcp/invocations", run_id=str(scene.theirs.call.run_id)).body["invocations"] == []


@RUNS
@pytest.mark.parametrize("wait", [0, 20])
def test_a_third_partys_task_is_neither_taken_nor_completed(scene: Scene, which: str, wait: int) -> None:
    """The exploit: a run that was told to by what it read takes a task out of the agent's inbox."""
    caller, offered = scene.run(which), scene.theirs.offered
    taken = caller.post("a2a/inbox/claim", {"lease_seconds": 60, "wait": wait})
    assert taken.is_refused(403, "Unauthorized", "run_token")
    assert taken.body["message"] == (
        "A run's token may not take the next task of an inbox: it serves its own run. Use a credential of writer."
    )
    assert caller.get("a2a/inbox", wait=wait).body["tasks"] == []
    assert caller.post(f"a2a/inbox/{offered.pk}/claim", {}).status == 404
    lease = scene.worker.post(f"a2a/inbox/{offered.pk}/claim", {}).body["lease_token"]
    forged = {"lease_token": lease, "result": {"text": "forged"}}
    assert caller.post(f"a2a/inbox/{offered.pk}/complete", forged).status == 404
    assert scene.worker.post(f"a2a/inbox/{offered.pk}/complete", {**forged, "result": {"text": "done"}}).status == 200
    offered.refresh_from_db()
    assert offered.result == {"text": "done"}


@RUNS
def test_it_makes_no_webhook_secret(scene: Scene, which: str) -> None:
    made = scene.run(which).post("a2a/webhook-secrets", {"url_prefix": "https://elsewhere.example.com/"})
    assert made.is_refused(403, "Unauthorized", "run_token")


@RUNS
def test_it_hangs_nothing_below_a_third_partys_task(scene: Scene, which: str) -> None:
    body = {
        "target_agent_id": str(scene.checker.pk),
        "task_type": "check",
        "input": {},
        "parent_task_id": str(scene.theirs.offered.pk),
    }
    refused = scene.run(which).post("a2a/tasks", body)
    assert refused.is_refused(404, "NotFound")
    absent = scene.run(which).post("a2a/tasks", {**body, "parent_task_id": ABSENT})
    assert refused.body["message"].replace(body["parent_task_id"], ABSENT) == absent.body["message"]
    assert not scene.theirs.offered.children.exists()


@RUNS
def test_under_a_key_that_was_used_it_is_not_told_whose_task_that_is(scene: Scene, which: str) -> None:
    body = json.dumps({"target_agent_id": str(scene.checker.pk), "task_type": "check", "input": {"a": 1}})
    sent = scene.worker.send("POST", "a2a/tasks", body, **{"Idempotency-Key": "nightly"})
    assert sent.status == 201
    again = scene.run(which).send("POST", "a2a/tasks", body, **{"Idempotency-Key": "nightly"})
    assert again.is_refused(409, "Conflict")
    assert sent.body["task_id"] not in json.dumps(again.body)
    own = [scene.run(which).send("POST", "a2a/tasks", body, **{"Idempotency-Key": "own"}).body for _ in range(2)]
    assert own[0]["task_id"] == own[1]["task_id"]


@RUNS
def test_a_call_under_way_is_told_to_the_run_that_made_it(scene: Scene, which: str) -> None:
    run = scene.bound_run if which == "bound" else scene.free_run
    for made_in, status in ((run, 200), (scene.theirs.run.pk, 404), (None, 404)):
        begun = invocations.begin(
            call_id=Task().pk, at=clock.database_now(), agent=(scene.stage.writer.pk, "writer"), tool_id=None,
            tool_name="peer", method="echo", args_hash="0" * 64, request_id=run, source="", run_id=made_in,
        )  # fmt: skip
        lease = Call.objects.create(
            pk=begun["id"], agent_id=scene.stage.writer.pk, server_id=ABSENT, tool_id=ABSENT, owner=ABSENT,
            deadline=clock.database_now(), row=invocations.as_json(begun),
        )  # fmt: skip
        assert scene.run(which).get(f"mcp/calls/{lease.pk}").status == status
        assert scene.worker.get(f"mcp/calls/{lease.pk}").status == 200


@RUNS
def test_what_the_agent_may_know_of_itself_stays(scene: Scene, which: str) -> None:
    caller, me = scene.run(which), scene.stage.writer.pk
    for path in ("me", "mcp/tools", f"identities/{me}/effective-access", f"a2a/cards/{me}", "supervisor/agents"):
        assert caller.get(path).status == 200, path


@RUNS
def test_once_the_run_has_ended_no_path_opens(scene: Scene, which: str) -> None:
    run = scene.bound_run if which == "bound" else scene.free_run
    run_tokens.close(execution_ids=[run], at=clock.database_now())
    for path in ("me", "a2a/tasks", f"a2a/tasks/{scene.task.pk}", f"supervisor/executions/{run}"):
        assert scene.run(which).get(path).is_refused(401, "Unauthorized", "credential_revoked")
