"""A whole chain at once: from any task, run or call in it, and of it what one may see."""

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from a2a import dispatching, tracing
from a2a.models import Task
from a2a.tracing import Step
from nhi import actors
from nhi.actors import SYSTEM
from nhi.credentials import credentials
from nhi.models import InvocationLog
from supervisor import submitting
from supervisor.access import Caller as Asking
from supervisor.models import Execution
from tests.a2a.delegation import town
from tests.a2a.delegation.town import Line, line, over_rest, run_for, token_of
from tests.api.callers import ABSENT, Caller, calling
from tests.mcp.peer import Peer
from tests.mcp.scene import scene
from tests.nhi import cast
from tests.supervisor import rows as supervised

pytestmark = [pytest.mark.capability("A2A-12"), pytest.mark.django_db(transaction=True)]


class Whole:
    """`a` asks `b`, `b` asks `c`; `b` calls a tool twice and in a run, which has a run of `d` call it too."""

    def __init__(self, url: str) -> None:
        self.line = line(scene(url, agents=[]), ["call", "delegate"], holds="abc")
        first, second = self.line.tasks
        _, b, c = self.line.who
        for _ in range(2):
            over_rest(self.line.token(b), {}, {"task_id": str(first.pk)})
        self.run = run_for(b, first)
        token = token_of(self.run)
        over_rest(token, {}, {})
        d = cast.agent("d")
        cast.tool_grant(d, self.line.scene.tool().identity)
        cast.nhi_grant(b, d)
        told = Asking(actors.identity(b), town.tokens.parse(token))
        agent = run_for(d, None).agent
        self.below = submitting.submit(caller=told, agent=agent, wish=submitting.Wish(input="x")).execution
        over_rest(token_of(self.below), {}, {})
        over_rest(self.line.token(c), {}, {"task_id": str(second.pk)})

    @property
    def tasks(self) -> list[Task]:
        return self.line.tasks


@pytest.fixture
def whole(server: Peer) -> Whole:
    return Whole(server.url)


def drawn(steps: list[Step]) -> list[tuple[int, str, int]]:
    return [(step.depth, type(step.row).__name__, step.count) for step in steps]


@pytest.mark.both_databases
def test_it_is_one_tree_of_tasks_runs_and_calls(whole: Whole) -> None:
    steps = tracing.steps(tracing.of_task(cast.acting("mara", "security-admin"), whole.tasks[1]))
    assert sorted(drawn(steps)) == sorted([
        (0, "Task", 1),
        (1, "Task", 1), (2, "InvocationLog", 1),
        (1, "InvocationLog", 2),
        (1, "Execution", 1), (2, "InvocationLog", 1),
        (2, "Execution", 1), (3, "InvocationLog", 1),
    ])  # fmt: skip
    assert steps[0].row == whole.tasks[0]
    assert len({step.row.pk for step in steps}) == len(steps)


def test_what_a_run_sent_stands_below_it_with_its_own_run(client: Client) -> None:
    """`a` asks `b`, which is run; its run asks `c`, which is run too."""
    a, b, c = (cast.agent(name) for name in "abc")
    for one, other in ((a, b), (b, c), (a, c)):
        cast.nhi_grant(one, other)
    for one in (b, c):
        supervised._agent(one, f"cli-{one.name}")
    first = town.send(credentials.issue(actor=SYSTEM, holder=a).token, a, b)
    dispatching.dispatch_due()
    asking = Execution.objects.get(task_id=first.pk)
    part = town.send(token_of(asking), b, c, parent=first)
    dispatching.dispatch_due()
    asked = Execution.objects.get(task_id=part.pk)
    mara = cast.acting("mara", "security-admin")
    for trace in (tracing.of_task(mara, first), tracing.of_task(mara, part), tracing.of_run(mara, asked)):
        line = [(step.depth, step.row.pk) for step in tracing.steps(trace)]
        assert line == [(0, first.pk), (1, asking.pk), (2, part.pk), (3, asked.pk)]
    body = calling(cast.user("mara")).get(f"a2a/tasks/{part.pk}/trace").body
    above = {one["id"]: (one["parent_task_id"], one["parent_execution_id"]) for one in body["tasks"]}
    assert above == {str(first.pk): (None, None), str(part.pk): (str(first.pk), str(asking.pk))}
    runs = {one["id"]: (one["task_id"], one["parent_id"]) for one in body["executions"]}
    assert runs[str(asked.pk)] == (str(part.pk), str(asking.pk))


def paths(whole: Whole) -> list[str]:
    calls = InvocationLog.objects.values_list("pk", flat=True)
    return [
        *(f"a2a/tasks/{task.pk}/trace" for task in whole.tasks),
        *(f"supervisor/executions/{run.pk}/trace" for run in (whole.run, whole.below)),
        *(f"mcp/invocations/{call}/trace" for call in calls),
    ]


def counted(body: Any) -> tuple[int, int, int]:
    return len(body["tasks"]), len(body["executions"]), len(body["calls"])


def test_it_is_the_same_from_wherever_one_comes(whole: Whole) -> None:
    mara = calling(cast.user("mara"))
    bodies = [mara.get(path).body for path in paths(whole)]
    assert {counted(body) for body in bodies} == {(2, 2, 5)}
    first = bodies[0]
    assert all(body == first for body in bodies)
    tasks = {one["id"]: one for one in first["tasks"]}
    part = tasks[str(whole.tasks[1].pk)]
    assert (part["parent_task_id"], part["permission_type"]) == (str(whole.tasks[0].pk), "delegate")
    assert (part["source_name"], part["target_name"]) == ("b", "c")
    runs = {one["id"]: one for one in first["executions"]}
    assert runs[str(whole.below.pk)]["parent_id"] == str(whole.run.pk)
    assert not first["truncated"]


def test_of_it_one_sees_what_one_sees_of_each(whole: Whole) -> None:
    """`c` sees the task that it was asked for and its own call; a stranger to the task finds none."""
    own = Caller(whole.line.token(whole.line.last)).get(f"a2a/tasks/{whole.tasks[1].pk}/trace").body
    assert counted(own) == (1, 0, 1)
    first = Caller(whole.line.token(whole.line.who[0])).get(f"a2a/tasks/{whole.tasks[0].pk}/trace").body
    assert counted(first) == (1, 0, 0)
    stranger = calling(cast.agent("stranger"))
    for path in (*paths(whole), f"a2a/tasks/{ABSENT}/trace"):
        assert stranger.get(path).is_refused(404, "NotFound")


def test_what_stands_in_no_task_is_its_own_trace(whole: Whole) -> None:
    b = whole.line.who[1]
    alone = run_for(b, None)
    over_rest(token_of(alone), {}, {})
    mara = calling(cast.user("mara"))
    assert counted(mara.get(f"supervisor/executions/{alone.pk}/trace").body) == (0, 1, 1)
    over_rest(whole.line.token(b), {}, {})
    call = InvocationLog.objects.latest("timestamp", "id")
    assert counted(mara.get(f"mcp/invocations/{call.pk}/trace").body) == (0, 0, 1)


def test_it_has_an_end(whole: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "MOST_CALLS", 2)
    body = calling(cast.user("mara")).get(f"a2a/tasks/{whole.tasks[0].pk}/trace").body
    assert (len(body["calls"]), body["truncated"]) == (2, True)


@pytest.mark.both_databases
def test_the_page_draws_it_with_few_queries_and_links_each_step(whole: Whole, client: Client) -> None:
    client.force_login(cast.user("mara"))
    address = f"/admin/a2a/task/{whole.tasks[1].pk}/trace/"
    client.get(address)
    with CaptureQueriesContext(connection) as seen:
        page = client.get(address)
    assert len(seen) <= 15, [query["sql"][:100] for query in seen]
    text = page.content.decode()
    for linked in (
        f'href="/admin/a2a/task/{whole.tasks[0].pk}/trace/"',
        f'href="/admin/supervisor/execution/{whole.run.pk}/"',
        f'href="/admin/supervisor/execution/{whole.below.pk}/"',
    ):
        assert linked in text
    assert re.search(r"peer\.echo(?:</[a-z]+>)* 2 calls<", text)
    assert "c works on it on behalf of b" in text
    for run in Execution.objects.filter(task_id=whole.tasks[0].pk):
        assert f"/admin/a2a/task/{whole.tasks[0].pk}/trace/" in client.get(
            f"/admin/supervisor/execution/{run.pk}/"
        ).content.decode()  # fmt: skip
    call = InvocationLog.objects.filter(agent_id=whole.line.last.pk).get()
    text = client.get(f"/admin/nhi/invocationlog/{call.pk}/").content.decode()
    assert f"/admin/a2a/task/{whole.tasks[1].pk}/trace/" in text
    assert "a › b › c" in text


def test_a_line_that_nobody_went_on_with_is_said_so(server: Peer, client: Client) -> None:
    asked: Line = line(scene(server.url, agents=[]), ["call"])
    client.force_login(cast.user("mara", "security-admin"))
    text = client.get(f"/admin/a2a/task/{asked.tasks[0].pk}/trace/").content.decode()
    assert "has asked nobody for a part of it and called no tool for it" in text
    assert "works on it with its own rights" in text
