"""What does an agent's tasks: derived until somebody chooses, for new tasks alone."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from django.db import IntegrityError, transaction

from a2a import carrier_leases, carriers, runtimes
from a2a.carriers import Carrier
from a2a.choices import RuntimeKind
from a2a.models import Runtime, Task
from common.errors import InvalidInput, NotAllowed
from nhi.actors import SYSTEM
from supervisor import agents
from supervisor.models import Agent
from tests.a2a import rows
from tests.a2a.conftest import Stage
from tests.api.callers import Caller, Reply, calling
from tests.nhi import cast

pytestmark = [pytest.mark.capability("A2A-07"), pytest.mark.django_db, pytest.mark.both_databases]
SERVER = "https://agents.example.com/card"


@pytest.fixture
def run(stage: Stage, make_agent: Callable[..., Agent]) -> Agent:
    return make_agent(name="drafts", identity=stage.writer)


@pytest.fixture
def carried(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if something here spoke to other servers; nobody is asked about names."""

    async def nothing(*_: Any) -> None: ...

    monkeypatch.setattr(carriers, "_carriers", {RuntimeKind.REMOTE: Carrier(nothing, nothing)})
    monkeypatch.setattr("a2a.runtime_checks.look_up", lambda _url: None)
    yield


def put(stage: Stage, caller: Caller | None = None, **body: Any) -> Reply:
    return (caller or stage.admin).send("PUT", path(stage), json.dumps(body))


def path(stage: Stage) -> str:
    return f"a2a/runtimes/{stage.writer.pk}"


def of_task(stage: Stage) -> tuple[str, Any]:
    task = Task.objects.get(pk=stage.sent())
    return task.runtime_kind, task.runs_agent_id


def test_an_agent_without_anything_takes_its_tasks_itself(stage: Stage) -> None:
    read = stage.admin.get(path(stage)).body
    assert read == {
        "identity_id": str(stage.writer.pk), "kind": "inbox", "derived": True, "agent": None, "remote": None,
        "chosen_by": None, "chosen_at": None,
    }  # fmt: skip
    assert of_task(stage) == ("inbox", None)


def test_the_oldest_that_runs_tasks_and_is_on_gets_them(
    stage: Stage, make_agent: Callable[..., Agent], run: Agent
) -> None:
    make_agent(name="talks", identity=stage.writer, mode="interactive")
    second = make_agent(name="second", identity=stage.writer)
    assert stage.admin.get(path(stage)).body["agent"] == {"id": str(run.pk), "name": "drafts", "enabled": True}
    assert of_task(stage) == ("cli", run.pk)
    agents.switch(actor=SYSTEM, agent=run, on=False, reason="Maintenance")
    assert of_task(stage) == ("cli", second.pk)
    agents.switch(actor=SYSTEM, agent=second, on=False, reason="Maintenance")
    assert of_task(stage) == ("inbox", None)


def test_a_choice_is_for_new_tasks(stage: Stage, run: Agent) -> None:
    before = Task.objects.get(pk=stage.sent())
    chosen = put(stage, kind="inbox")
    assert (chosen.status, chosen.body["kind"], chosen.body["chosen_by"]) == (200, "inbox", "mara")
    assert of_task(stage) == ("inbox", None)
    before.refresh_from_db()
    assert (before.runtime_kind, before.runs_agent_id) == ("cli", run.pk)
    assert put(stage, kind="cli", agent_id=str(run.pk)).body["agent"]["name"] == "drafts"
    left = stage.admin.send("DELETE", path(stage), "")
    assert (left.status, left.body["kind"], left.body["derived"]) == (200, "cli", True)
    assert cast.events(stage.writer).count("runtime.changed") == 3
    assert Runtime.objects.count() == 2
    assert not Runtime.objects.in_force().exists()


def test_the_same_choice_changes_nothing(stage: Stage) -> None:
    put(stage, kind="inbox")
    put(stage, kind="inbox")
    assert Runtime.objects.count() == 1


def test_one_choice_is_in_force(stage: Stage) -> None:
    put(stage, kind="inbox")
    again = Runtime.objects.get()
    with pytest.raises(IntegrityError), transaction.atomic():
        Runtime.objects.create(identity=stage.writer, kind="inbox", created_at=again.created_at)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"kind": "nothing"}, "kind"),
        ({"kind": "cli"}, "agent_id"),
        ({"kind": "inbox", "url": SERVER}, "url"),
        ({"kind": "inbox", "credential": "s3cret-value"}, "credential"),
        ({"kind": "model", "agent_id": "drafts"}, "agent_id"),
        ({"kind": "inbox", "agent_id": "drafts"}, "agent_id"),
        ({"kind": "cli", "agent_id": "strange"}, "agent_id"),
    ],
)
def test_a_choice_that_does_not_fit_is_refused(
    stage: Stage, run: Agent, make_agent: Callable[..., Agent], body: dict[str, Any], field: str
) -> None:
    named = {"drafts": run, "strange": make_agent(name="strange")}
    if "agent_id" in body:
        body = {**body, "agent_id": str(named[body["agent_id"]].pk)}
    refused = put(stage, **body)
    assert refused.is_refused(400, "InvalidParameters")
    assert refused.fields == [field]
    assert not Runtime.objects.exists()


def test_a_kind_that_nothing_carries_cannot_be_chosen(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carriers, "_carriers", {})
    refused = put(stage, kind="remote", url=SERVER)
    assert refused.is_refused(400, "InvalidParameters")
    assert refused.fields == ["kind"]


def test_who_may_not_choose_is_refused(stage: Stage) -> None:
    operator = calling(cast.user("otto", "operator"))
    assert operator.get(path(stage)).status == 200
    assert put(stage, operator, kind="inbox").is_refused(403, "Unauthorized")
    assert put(stage, stage.worker, kind="inbox").is_refused(403, "Unauthorized")
    assert stage.worker.get(path(stage)).status == 200
    assert put(stage, stage.stranger, kind="inbox").is_refused(404, "NotFound")
    with pytest.raises(NotAllowed):
        runtimes.choose(actor=cast.acting("olga", "operator"), identity=stage.writer, kind="inbox")


@pytest.mark.usefixtures("carried")
def test_a_remote_server_is_kept_with_its_credential_sealed(stage: Stage) -> None:
    chosen = put(stage, kind="remote", url=SERVER, credential="s3cret-value", scheme="Bearer", timeout="20s")
    assert chosen.body["remote"] == {
        "url": SERVER, "wire_version": "auto", "binding": "auto", "header": "", "scheme": "Bearer",
        "has_credential": True, "timeout": "20s",
    }  # fmt: skip
    row = Runtime.objects.in_force().get()
    assert "s3cret" not in row.sealed_credential
    assert runtimes.credential(row) == "s3cret-value"
    task = rows.sent(stage.writer)
    assert (task.runtime_kind, task.runtime, task.dispatch_at) == ("remote", row, task.created_at)
    put(stage, kind="remote", url=SERVER, wire_version="0.3")
    assert runtimes.credential(Runtime.objects.in_force().get()) == "s3cret-value"
    moved = put(stage, kind="remote", url="https://elsewhere.example.com/")
    assert moved.is_refused(400, "InvalidParameters")
    assert moved.fields == ["credential"]


@pytest.mark.usefixtures("carried")
def test_a_credential_is_forgotten_when_no_task_needs_it(stage: Stage) -> None:
    """Nor one whose server is still to be told that it has ended."""
    put(stage, kind="remote", url=SERVER, credential="s3cret-value")
    task = rows.sent(stage.writer)
    put(stage, kind="inbox")
    assert runtimes.forget_replaced() == 0
    rows.moved(task, rows.TaskState.CANCELED)
    assert runtimes.forget_replaced() == 0
    mark = uuid4()
    assert carrier_leases.claim(1, mark) == [task]
    assert carrier_leases.settle(task.pk, mark)
    assert runtimes.forget_replaced() == 1
    assert not Runtime.objects.exclude(sealed_credential="").exists()


@pytest.mark.usefixtures("carried")
@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"url": "http://10.0.0.1/"}, "url"),
        ({"url": "https://u:password@agents.example.com/"}, "url"),
        ({"header": "Host"}, "header"),
        ({"header": "A B"}, "header"),
        ({"scheme": "Be arer"}, "scheme"),
        ({"credential": "line\nbreak"}, "credential"),
        ({"timeout": 601}, "timeout"),
    ],
)
def test_a_remote_server_that_is_not_spoken_to_is_refused(stage: Stage, more: dict[str, Any], field: str) -> None:
    refused = put(stage, **{"kind": "remote", "url": SERVER, **more})
    assert refused.is_refused(400, "InvalidParameters")
    assert field in refused.fields


def test_a_name_that_leads_inside_is_refused(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    carrier = Carrier(*[replace] * 2)  # type: ignore[arg-type]  # nothing is carried here
    monkeypatch.setattr(carriers, "_carriers", {RuntimeKind.REMOTE: carrier})
    with pytest.raises(InvalidInput) as refused:
        runtimes.choose(actor=SYSTEM, identity=stage.writer, kind="remote", url="https://localhost/")
    assert [problem.field for problem in refused.value.fields] == ["url"]


def test_a_choice_that_is_none_is_told_which_there_are(stage: Stage) -> None:
    with pytest.raises(InvalidInput) as refused:
        runtimes.choose(
            actor=SYSTEM, identity=stage.writer, kind="remote", url=SERVER, wire_version="2.0", binding="SOAP"
        )
    assert {problem.field: problem.message for problem in refused.value.fields} == {
        "wire_version": "Choose auto, 1.0 or 0.3.",
        "binding": "Choose auto, JSONRPC, HTTP+JSON or GRPC.",
    }


def test_a_header_that_grpc_cannot_carry_is_refused_for_it(stage: Stage) -> None:
    remote = {"kind": "remote", "url": SERVER, "wire_version": "1.0", "header": "X!Key"}
    with pytest.raises(InvalidInput) as refused:
        runtimes.choose(actor=SYSTEM, identity=stage.writer, binding="GRPC", **remote)
    assert [problem.field for problem in refused.value.fields] == ["header"]
    runtimes.choose(actor=SYSTEM, identity=stage.writer, binding="JSONRPC", **remote)
