"""Answering at the console what a task's agent asked for: by whom, in whose name, and only while it waits."""

import pytest
from django.test import Client

from a2a.models import Task
from nhi.models import AuditEvent, Identity
from tests.a2a import rows
from tests.a2a.console.tasks import S, page_of
from tests.console.conftest import SignedIn, identity
from tests.console.reading import confirmed, main_of, text

pytestmark = [pytest.mark.capability("A2A-02", "A2A-08", "CON-02"), pytest.mark.django_db]


@pytest.fixture
def asked(planner: Identity) -> Task:
    """What mara asked of the planner, which wants to know more."""
    task = rows.sent(planner)
    rows.claimed(task)
    return rows.moved(task, S.INPUT_REQUIRED, "Who is it for?")


@pytest.fixture
def part(asked: Task, planner: Identity) -> Task:
    """What the planner asked of the writer, which wants to know more."""
    task = rows.sent(identity("writer"), source_agent_id=planner.pk)
    return rows.moved(task, S.INPUT_REQUIRED, "In which language?")


def test_what_waits_is_answered_on_its_page_and_goes_on(asked: Task, mara: Client) -> None:
    path = page_of(asked, "reply/")
    assert path in main_of(text(mara, page_of(asked)))
    assert "Who is it for?" in main_of(text(mara, path))
    assert confirmed(mara, path, text="Customers, <b>all</b> of them") == 302
    asked.refresh_from_db()
    assert (asked.state, asked.lease_until) == (S.WORKING, None)
    page = main_of(text(mara, page_of(asked)))
    assert "Customers, &lt;b&gt;all&lt;/b&gt; of them" in page
    assert path not in page
    assert "waits for no answer: it is working." in text(mara, path)


def test_an_empty_answer_is_none(asked: Task, mara: Client) -> None:
    assert confirmed(mara, page_of(asked, "reply/"), text=" ") == 422
    asked.refresh_from_db()
    assert asked.state == S.INPUT_REQUIRED


def test_who_may_answers_in_an_identitys_name_and_that_is_on_record(part: Task, mara: Client) -> None:
    path = page_of(part, "reply/")
    dialog = mara.get(path)
    assert "writer hears it as said by planner" in dialog.content.decode()
    assert confirmed(mara, path, text="German") == 302
    event = AuditEvent.objects.get(event="task.answered")
    assert (event.actor_name, event.details) == ("mara", {"in_the_name_of": "planner"})


def test_nobody_else_answers(asked: Task, part: Task, signed_in: SignedIn) -> None:
    """olga runs tasks, and neither of these is hers."""
    for name in ("olga", "tom", "ada"):
        client = signed_in(name)
        for task in (asked, part):
            assert page_of(task, "reply/") not in main_of(text(client, page_of(task)))
            for method in ("get", "post"):
                answer = getattr(client, method)(page_of(task, "reply/"), {"text": "Me", "seen": ""})
                assert answer.status_code == 403, (name, method)
    assert Task.objects.filter(state=S.INPUT_REQUIRED).count() == 2
