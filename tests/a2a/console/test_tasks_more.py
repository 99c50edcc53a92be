"""Under More of a task: it as a command, and delivering again what nobody heard of it; and what its Cancel stops."""

import json
import shlex
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from a2a.admin import tasks_more
from a2a.models import Delivery, Task
from nhi.models import Identity, User
from tests.a2a import rows
from tests.a2a.console import scene
from tests.a2a.console.tasks import S, page_of
from tests.console.conftest import SignedIn, identity
from tests.console.reading import confirmed, main_of, queries, text
from tests.supervisor.console import scene as runs

pytestmark = [pytest.mark.capability("A2A-02", "A2A-06", "CON-05"), pytest.mark.django_db]


def more(client: Client, task: Task) -> dict[str, str]:
    """By the label, what it copies or where it leads."""
    found = client.get(page_of(task)).context["more"]
    return {control.label: control.copies or control.blocked or control.url for control in found}


def body_of(command: str) -> dict[str, object]:
    words = shlex.split(command.replace("\\\n", " "))
    return dict(json.loads(words[words.index("-d") + 1]))


def test_reading_and_sending_the_same_are_copied_as_commands(writer: Identity, signed_in: SignedIn) -> None:
    later, planner = timezone.now() + timedelta(hours=1), identity("planner")
    plan = rows.sent(planner)
    given = {"say": 'it\'s "so"', "n": [1, 2]}
    task = rows.sent(
        writer, given=given, task_type="draft", source_agent_id=planner.pk, parent_task_id=plan.pk, deadline=later,
        callback_url=scene.URL,
    )  # fmt: skip
    found = more(signed_in("mara"), task)
    assert f"/api/nhi/a2a/tasks/{task.pk}" in found["Copy as curl: read it"]
    assert body_of(found["Copy as curl: send the same"]) == {
        "target_agent_id": str(writer.pk), "task_type": "draft", "input": given, "source_agent_id": str(planner.pk),
        "parent_task_id": str(plan.pk), "deadline": later.isoformat().replace("+00:00", "Z"),
        "callback_url": scene.URL,
    }  # fmt: skip
    # What has passed would be refused.
    rows.moved(plan, S.REJECTED)
    Task.objects.filter(pk=task.pk).update(deadline=timezone.now())
    assert body_of(more(signed_in("mara"), task)["Copy as curl: send the same"]).keys() == {
        "target_agent_id", "task_type", "input", "source_agent_id", "callback_url"
    }  # fmt: skip
    assert list(more(signed_in("ada"), task)) == ["Copy as curl: read it"]


def test_a_command_says_what_it_lacks_and_is_not_offered_where_none_says_the_same(
    writer: Identity, mara: Client
) -> None:
    masked = rows.sent(writer, given={"password": "hunter2-hunter2"})
    command = more(mara, masked)["Copy as curl: send the same (secrets are masked)"]
    assert "hunter2" not in command
    long = rows.sent(writer, given={"text": "a" * tasks_more.LONGEST})
    assert more(mara, long)["Copy as curl: send the same"] == "Its input is too long for a command."
    Task.objects.filter(pk=long.pk).update(input={"parts": [{"text": "a"}, {"url": "https://b.test/"}]})
    assert "in parts" in more(mara, long)["Copy as curl: send the same"]


def test_what_nobody_heard_of_a_task_is_redelivered_from_its_page(writer: Identity, signed_in: SignedIn) -> None:
    mara = signed_in("mara")
    quiet, heard, lost = rows.sent(writer), scene.heard(writer), scene.given_up(writer)
    other = scene.given_up(writer)
    assert not any("Redeliver" in label for label in more(mara, quiet))
    assert more(mara, heard.task)["Redeliver"] == "Nothing that was told of it was given up."
    path = page_of(lost.task, "redeliver/")
    assert more(mara, lost.task)["Redeliver 1…"] == path
    dialog = text(mara, path)
    assert "Redeliver 1 delivery to 1 endpoint" in dialog
    assert "ci.example.org:8443" in dialog
    assert "Nothing that was told of" in text(mara, page_of(heard.task, "redeliver/"))
    assert confirmed(mara, path) == 302
    assert list(Delivery.objects.pending()) == [lost]
    assert "is being made again" in text(mara, page_of(lost.task, "deliveries/"))
    for name in ("tom", "ada"):
        client = signed_in(name)
        assert not any("Redeliver" in label for label in more(client, other.task)), name
        answer = client.post(page_of(other.task, "redeliver/"), {"seen": ""})
        assert answer.status_code == (403 if name == "ada" else 409), name
    other.refresh_from_db()
    assert other.state == "dead"
    User.objects.get(username="olga").groups.clear()
    unseen = scene.given_up(identity("planner")).task
    assert signed_in("olga").get(page_of(unseen, "redeliver/")).status_code == 404


def test_cancel_names_the_runs_that_it_stops_and_counts_those_of_its_parts(
    writer: Identity, signed_in: SignedIn
) -> None:
    mara, planner = signed_in("mara"), identity("planner")
    plan = rows.sent(planner)
    draft = rows.sent(writer, source_agent_id=planner.pk, parent_task_id=plan.pk)
    agent = runs.agent("draft", of="deploy-bot", max_concurrent_executions=3)
    whole, part, over = (runs.asked(agent, said) for said in ("one", "two", "three"))
    runs.ended(over)
    other = rows.sent(writer, source_agent_id=planner.pk, parent_task_id=plan.pk)
    for task, run in ((plan, whole), (draft, part), (other, over)):
        Task.objects.filter(pk=task.pk).update(execution_id=run.pk)
    dialog = mara.get(page_of(plan, "cancel/"))
    words = [effect.words for effect in dialog.context["effects"]]
    assert words[1:] == [
        "Also cancels 2 tasks within it.",
        "Stops runs draft #1, draft #2, with every process in them.",
    ]
    assert queries(mara, page_of(plan, "cancel/")) <= 13
    # Who does not see runs is told how many.
    User.objects.get(username="olga").groups.clear()
    mine = rows.sent(writer, by="olga")
    Task.objects.filter(pk=mine.pk).update(execution_id=part.pk)
    page = main_of(text(signed_in("olga"), page_of(mine, "cancel/")))
    assert "Stops 1 run, with every process in it." in page
    assert "draft #2" not in page
