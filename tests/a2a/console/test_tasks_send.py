"""Sending a task from the console: in one's own name, by the verb of every door; a refusal says why and what to do."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from a2a import sending
from a2a.given import ForRun, for_run
from a2a.models import Task
from nhi.actors import SYSTEM
from nhi.choices import Kind
from nhi.identities import identities, lifecycle
from nhi.models import AuditEvent, Identity, User
from tests.a2a.console.tasks import TASKS
from tests.console.conftest import SignedIn, hub
from tests.console.reading import main_of, queries, text

pytestmark = [pytest.mark.capability("A2A-02", "CON-05"), pytest.mark.django_db]
SEND = f"{TASKS}send/"


def filled(client: Client, **more: str) -> dict[str, str]:
    """As a browser would post it."""
    form = client.get(SEND).context["form"]
    shown = {name: str(form[name].value() or "") for name in form.fields}
    return {**shown, "to": "writer", "task_type": "summarise", "input": '{"text": "Hello."}', **more}


def refused(client: Client, **more: str) -> tuple[int, dict[str, Any]]:
    answer = client.post(SEND, filled(client, **more))
    return answer.status_code, dict(answer.context["form"].errors)


def test_a_task_is_sent_as_the_person_and_its_page_opened(writer: Identity, mara: Client) -> None:
    assert SEND in main_of(text(mara, TASKS))
    later = timezone.localtime(timezone.now() + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M")
    body = filled(mara, deadline=later, callback_url="https://8.8.8.8/done", input='{"n": [1, "\u00e4"]}')
    answer = mara.post(SEND, body)
    task = Task.objects.get()
    assert (answer.status_code, answer["Location"]) == (302, f"{TASKS}{task.pk}/")
    assert (task.agent, task.source, task.created_by_name, task.task_type) == (writer, None, "mara", "summarise")
    assert task.input == {"n": [1, "\u00e4"]}
    assert task.deadline is not None
    assert task.callback_url == "https://8.8.8.8/done"
    assert AuditEvent.objects.filter(event="task.sent", actor_name="mara").count() == 1
    assert f"writer has been sent {task.short_id}" in text(mara, answer["Location"])
    # Pressed twice, it is sent once; changed in between, it is another and says so.
    assert mara.post(SEND, body)["Location"] == answer["Location"]
    assert mara.post(SEND, {**body, "task_type": "draft"}).status_code == 409
    assert Task.objects.count() == 1


def test_what_stands_there_at_first_is_what_a_program_is_given_as_its_input(mara: Client) -> None:
    filled_in = mara.get(SEND).context["form"]["input"]
    given = for_run(sending.of_input(json.loads(filled_in.value()))["parts"])
    assert given == ForRun("Hello.")
    assert filled_in.value() in filled_in.help_text


def test_it_is_opened_from_an_agents_page_and_says_where_its_tasks_go(writer: Identity, mara: Client) -> None:
    assert f"{SEND}?to={writer.pk}" in main_of(text(mara, hub("writer", "tasks/")))
    assert SEND not in main_of(text(mara, hub("writer", "tasks/?side=from")))
    shown = mara.get(f"{SEND}?to={writer.pk}")
    assert shown.context["form"]["to"].value() == "writer"
    assert "Tasks of writer go to its inbox, for its own workers." in shown.content.decode()
    assert queries(mara, f"{SEND}?to={writer.pk}") <= 15


@pytest.mark.parametrize(
    ("more", "field", "said"),
    [
        ({"to": "nobody-here"}, "to", "There is no agent nobody-here that you can see."),
        ({"input": "[1]"}, "input", "Write a JSON object"),
        ({"input": '{"a": NaN}'}, "input", "NaN is not JSON."),
        ({"input": '{"a": 1, "a": 2}'}, "input", "a"),
        ({"input": "{"}, "input", "This is not JSON"),
        ({"deadline": "2020-01-01T00:00"}, "deadline", "Choose a time in the future."),
        ({"callback_url": "notaurl"}, "callback_url", "Write a whole URL: https://, the host"),
        ({"callback_url": "https://127.0.0.1/"}, "callback_url", "EGRESS_ALLOW"),
        ({"key": ""}, "key", ""),
    ],
)
def test_what_cannot_be_sent_is_said_beside_its_field(
    writer: Identity, mara: Client, more: dict[str, str], field: str, said: str
) -> None:
    status, errors = refused(mara, **more)
    assert status in (400, 422)
    assert said in str(errors[field])
    assert not Task.objects.exists()


def test_who_may_not_is_told_why_and_what_to_do(writer: Identity, signed_in: SignedIn) -> None:
    for name in ("ada",):
        assert signed_in(name).get(SEND).status_code == 403, name
        assert SEND not in text(signed_in(name), TASKS), name
    # tom handles triage-bot, and sees writer.
    tom = signed_in("tom")
    assert tom.post(SEND, filled(tom, to="triage-bot")).status_code == 302
    status, errors = refused(tom)
    assert status == 403
    said = f"You may not send tasks to writer. Its owner, {writer.owner}, or a security admin can let you use it."
    assert errors["__all__"] == [said]
    assert AuditEvent.objects.filter(event="task.refused", actor_name="tom", subject_name="writer").exists()
    assert "Send a task" not in main_of(text(tom, hub("writer", "tasks/")))
    lifecycle.suspend(actor=SYSTEM, identity=writer, reason="leaked")
    status, errors = refused(signed_in("mara"))
    assert (status, errors["__all__"]) == (403, ["writer is suspended. Activate writer."])


def test_an_owner_without_a_role_sends_to_their_own(seeded: None, signed_in: SignedIn) -> None:
    olga = signed_in("olga")
    User.objects.get(username="olga").groups.clear()
    assert olga.post(SEND, filled(olga)).status_code == 302
    assert refused(olga, to="ci")[0] == 422
    pat = User.objects.create(username="pat", is_staff=True)
    identities.create(actor=SYSTEM, kind=Kind.TOOL, name="one__tool", owner=pat)
    client = Client()
    client.force_login(pat, backend="django.contrib.auth.backends.ModelBackend")
    assert client.get(SEND).status_code == 403
