"""Pages of a task name who spoke in it, and in whose name: nobody stands there for what somebody else said."""

import pytest
from django.test import Client

from a2a import sending
from a2a.admin import tasks_tabs
from a2a.models import Task
from nhi import actors
from nhi.models import Identity
from supervisor.access import Caller
from tests.a2a import rows
from tests.a2a.console.tasks import S, page_of
from tests.console.conftest import identity
from tests.console.reading import main_of, queries, text

pytestmark = [pytest.mark.capability("A2A-02", "A2A-08", "CON-02"), pytest.mark.django_db]
OF_ANOTHER = "mara, in the name of planner"


@pytest.fixture
def part(planner: Identity) -> Task:
    """What mara sent to the writer in the planner's name."""
    return rows.sent(identity("writer"), source_agent_id=planner.pk)


def asked_and_answered(task: Task, *by: actors.Actor) -> None:
    for actor in by:
        rows.moved(task, S.INPUT_REQUIRED, "And?")
        sending.say(caller=Caller(actor), task=task, message=rows.said(f"As {actor.name} says"))


def person(name: str) -> actors.Actor:
    return rows.caller(name).actor


def said_in(client: Client, task: Task, query: str = "") -> list[str]:
    lines = client.get(f"{page_of(task)}{query}").context["lines"]
    return [line.words for line in lines if line.badge.label in {"Submitted", "Message"}]


def test_an_answer_is_of_who_gave_it_and_of_whose_name_it_was_given_in(
    part: Task, planner: Identity, mara: Client
) -> None:
    asked_and_answered(part, person("mara"), actors.identity(planner), person("admin"))
    sent, *answers = said_in(mara, part)
    assert sent.startswith(f"sent by {OF_ANOTHER}")
    assert answers == [f"by {OF_ANOTHER}", "by planner", "by admin, in the name of planner"]
    shown = [(said.by.label, said.name) for said in mara.get(page_of(part, "content/")).context["said"]]
    assert [name for by, name in shown if by == "Caller"] == [
        OF_ANOTHER, OF_ANOTHER, "planner", "admin, in the name of planner"
    ]  # fmt: skip
    assert {name for by, name in shown if by == "Agent"} == {""}
    assert f"by {OF_ANOTHER}" in main_of(text(mara, page_of(part, "content/")))


def test_a_page_that_begins_later_names_the_same_people(
    part: Task, planner: Identity, mara: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_and_answered(part, person("mara"), actors.identity(planner), person("admin"))
    monkeypatch.setattr(tasks_tabs, "EVENTS", 3)
    monkeypatch.setattr(tasks_tabs, "MESSAGES", 3)
    assert said_in(mara, part) == ["by admin, in the name of planner"]
    assert said_in(mara, part, "?before=7") == ["by planner"]
    shown = [said.name for said in mara.get(page_of(part, "content/")).context["said"] if said.by.label == "Caller"]
    assert shown == ["planner", "admin, in the name of planner"]


def test_who_sends_for_themselves_is_named_alone(mara: Client) -> None:
    task = rows.sent(identity("writer"))
    asked_and_answered(task, person("mara"))
    sent, answer = said_in(mara, task)
    assert sent.startswith("sent by mara")
    assert "in the name of" not in sent
    assert answer == "by mara"


def test_more_answers_ask_the_database_no_more(part: Task, mara: Client) -> None:
    asked_and_answered(part, person("mara"))
    few = [queries(mara, page_of(part, tab)) for tab in ("", "content/")]
    asked_and_answered(part, *[person("mara")] * 3)
    assert [queries(mara, page_of(part, tab)) for tab in ("", "content/")] == few
