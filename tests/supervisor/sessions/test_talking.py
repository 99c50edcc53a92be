"""Messages go in and come out in order, each once, whoever speaks and however many at a time."""

import json
import threading
from collections.abc import Callable

import pytest
from django.db import connection

from common.errors import InvalidInput
from supervisor import sessions
from supervisor.access import Caller
from supervisor.models import Agent, Session, SessionMessage
from tests.services.house import ROOT
from tests.supervisor.sessions.talks import heard, until_closed, until_heard
from tests.supervisor.waiting import until

pytestmark = [
    pytest.mark.capability("SUP-08"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("runner"),
]
SPEAKERS, EACH = 3, 12


@pytest.mark.both_databases
def test_what_three_say_at_once_is_given_and_answered_in_one_order(
    make_talker: Callable[..., Agent], open_session: Callable[[Agent], Session], operator: Caller
) -> None:
    """The first messages are sent before there is a process."""
    session = open_session(make_talker())

    def speak(who: str) -> None:
        for number in range(EACH):
            sessions.say(caller=operator, session=session, text=f"{who}{number}")
        connection.close()

    speakers = [threading.Thread(target=speak, args=(who,)) for who in "abc"]
    for speaker in speakers:
        speaker.start()
    for speaker in speakers:
        speaker.join()
    until_heard(session, SPEAKERS * EACH)
    rows = list(sessions.messages(session))
    assert [row.seq for row in rows] == list(range(1, 2 * SPEAKERS * EACH + 1))
    asked = [row.text for row in rows if row.direction == "in"]
    assert [row.text for row in rows if row.direction == "out"] == [f"heard {text}" for text in asked]
    for who in "abc":
        assert [text for text in asked if text[0] == who] == [f"{who}{number}" for number in range(EACH)]
    assert all(row.taken_at and row.said_by_name == "oscar" for row in rows if row.direction == "in")
    sessions.close(actor=operator.actor, session=session)
    until_closed(session)


def test_one_process_remembers_the_whole_conversation(
    make_talker: Callable[..., Agent], open_session: Callable[[Agent], Session], operator: Caller
) -> None:
    companion = (ROOT / "examples" / "agents" / "companion.py").read_text()
    session = open_session(make_talker(companion))
    talk = [
        ("I have a cat", "I keep this as number 1."),
        ("It is\nblack", "I keep this as number 2."),
        ("recall 2", "It is black"),
        ("count", "You told me 2 things."),
        ("bye", "Goodbye."),
    ]
    for number, (asked, answer) in enumerate(talk, 1):
        sessions.say(caller=operator, session=session, text=asked)
        assert until_heard(session, number)[-1] == answer
    ended = until_closed(session)
    assert (ended.close_reason, ended.execution.status) == ("The agent ended it.", "success")
    assert ended.execution.slot is None
    assert sessions.messages(ended).get(seq=3).text == "It is\nblack"


COUNTS = """#!/usr/bin/env python3
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": asked}), flush=True)
"""


def test_an_agent_that_speaks_json_rpc_gets_a_request_for_each_message(
    make_talker: Callable[..., Agent], open_session: Callable[[Agent], Session], operator: Caller
) -> None:
    session = open_session(make_talker(COUNTS, input_pattern="json-rpc", output_pattern="json-rpc"))
    message = sessions.say(caller=operator, session=session, text="two\nlines")
    answer = json.loads(until_heard(session, 1)[0])
    request = {"jsonrpc": "2.0", "id": message.seq, "method": "message", "params": {"text": "two\nlines"}}
    assert answer == {"jsonrpc": "2.0", "id": message.seq, "result": request}


KNOWS = """#!/usr/bin/env python3
import os, sys
for line in sys.stdin:
    print(line.strip() == os.environ["API_KEY"], os.environ["API_KEY"], flush=True)
    print("careful", os.environ["API_KEY"], file=sys.stderr, flush=True)
"""
SECRET = "correct-horse-battery-staple-9"


def test_a_secret_reaches_the_agent_and_nothing_that_is_kept(
    make_talker: Callable[..., Agent], open_session: Callable[[Agent], Session], operator: Caller
) -> None:
    session = open_session(make_talker(KNOWS, envs={"API_KEY": SECRET}))
    message = sessions.say(caller=operator, session=session, text=SECRET)
    [answer] = until_heard(session, 1)
    assert answer.startswith("True ")
    sessions.close(actor=operator.actor, session=session, reason="Done")
    ended = until_closed(session)
    message.refresh_from_db()
    kept = [message.text, answer, ended.execution.result.error, *ended.execution.chunks.values_list("text", flat=True)]
    assert "careful" in ended.execution.result.error
    assert all(SECRET not in text for text in kept)
    assert not SessionMessage.objects.exclude(sealed_text="").exists()


def test_lines_come_whole_and_too_long_ones_end_where_they_are_cut(
    make_talker: Callable[..., Agent], open_session: Callable[[Agent], Session], operator: Caller
) -> None:
    script = """#!/usr/bin/env python3
import sys
for part in ("be", "gun\\r\\n", "\\n", "nul \\0 here\\n", "x" * 200_000 + "\\n", "no end"):
    sys.stdout.write(part)
    sys.stdout.flush()
"""
    session = open_session(make_talker(script))
    until_closed(session)
    first, empty, nul, long, last = heard(session)
    assert (first, empty, nul, last) == ("begun", "", "nul \N{SYMBOL FOR NULL} here", "no end")
    assert len(long.encode()) <= 64 * 1024
    assert long.endswith("xx …")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("", "Say something."), ("x" * 65_537, "Use at most 64 KiB."), ("\ud800", "half of a character")],
)
def test_what_cannot_be_given_is_refused(
    make_talker: Callable[..., Agent],
    open_session: Callable[[Agent], Session],
    operator: Caller,
    text: str,
    complaint: str,
) -> None:
    session = open_session(make_talker())
    with pytest.raises(InvalidInput, match=complaint):
        sessions.say(caller=operator, session=session, text=text)
    sessions.say(caller=operator, session=session, text="\0" * 65_536)
    assert until_heard(session, 1)
    until(lambda: sessions.messages(session).filter(taken_at__isnull=False).exists(), "it was taken")
