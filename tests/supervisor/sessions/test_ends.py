"""However a session ends, it is closed with a reason, its run has an outcome, and no process is left."""

from collections.abc import Callable

import pytest

from common.errors import Conflict
from nhi.identities import lifecycle as identities
from supervisor import cancelling, reaping, sessions, transcripts
from supervisor.access import Caller
from supervisor.models import Agent, Execution, Session
from supervisor.runner.conversation import Conversation
from tests.nhi import cast
from tests.supervisor.sessions.talks import heard, said, until_closed, until_heard
from tests.supervisor.waiting import LONGEST, until, until_running
from tests.supervisor.workers import with_command

pytestmark = [
    pytest.mark.capability("SUP-08"),
    pytest.mark.django_db(transaction=True),
]
#: Reads on after the end of its input and after being asked to end; `mark` finds it.
STUBBORN = """#!/usr/bin/env python3
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("here", *sys.argv, flush=True)
sys.stdin.read()
time.sleep(60)
"""
LAST_WORDS = """#!/usr/bin/env python3
import sys
for line in sys.stdin:
    print("heard", line.rstrip(), flush=True)
print("farewell")
sys.exit(3)
"""


@pytest.fixture(autouse=True)
def _short_patience(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How long is waited is no part of the promise; that it is waited, and for what, is."""
    monkeypatch.setattr("supervisor.runner.conversation.GRACE", 0.2)
    monkeypatch.setattr("supervisor.runner.program.GRACE", 0.2)
    monkeypatch.setattr("supervisor.cancelling.GRACE", 0.2)


@pytest.mark.both_databases
@pytest.mark.usefixtures("runner")
def test_closing_gives_what_was_said_before_and_lets_the_agent_end(
    make_talker: Callable[..., Agent], open_session: Callable[[Agent], Session], operator: Caller
) -> None:
    session = open_session(make_talker(LAST_WORDS))
    until_running(session.execution)
    sessions.say(caller=operator, session=session, text="one more")
    closing = sessions.close(actor=operator.actor, session=session, reason="All said")
    assert (closing.state, closing.close_requested_at is not None) == ("open", True)
    for refused in (
        lambda: sessions.close(actor=operator.actor, session=session),
        lambda: sessions.say(caller=operator, session=session, text="Wait"),
    ):
        with pytest.raises(Conflict, match=r"is being closed\. oscar: All said"):
            refused()
    ended = until_closed(session)
    assert heard(ended) == ["heard one more", "farewell"]
    assert (ended.close_reason, ended.closed_at is not None) == ("oscar: All said", True)
    assert (ended.execution.status, ended.execution.exit_code) == ("success", 3)
    with pytest.raises(Conflict, match=r"is closed\. oscar: All said"):
        sessions.say(caller=operator, session=session, text="Hello?")
    assert cast.events(ended) == ["session.closed"]
    assert cast.events(ended.agent)[-2:] == ["run.asked", "session.opened"]


@pytest.mark.usefixtures("runner")
def test_closing_ends_a_process_that_does_not(
    make_talker: Callable[..., Agent],
    open_session: Callable[[Agent], Session],
    operator: Caller,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("supervisor.runner.conversation.PATIENCE", 0.1)
    mark = "stubborn-41"
    session = open_session(make_talker(STUBBORN, cli_args=[mark]))
    until_heard(session, 1)
    assert with_command(mark)
    sessions.close(actor=operator.actor, session=session)
    ended = until_closed(session)
    assert (ended.execution.status, ended.close_reason) == ("success", "Closed by oscar.")
    assert not with_command(mark)


@pytest.mark.usefixtures("runner")
def test_one_that_says_nothing_is_ended_unless_it_is_kept_alive(
    make_talker: Callable[..., Agent], open_session: Callable[[Agent], Session], operator: Caller
) -> None:
    idle = open_session(make_talker(name="idle", idle_timeout=1))
    kept = open_session(make_talker(name="kept", idle_timeout=1, keep_alive=True))
    sessions.say(caller=operator, session=kept, text="Stay")
    until_heard(kept, 1)
    ended = until_closed(idle)
    assert ended.close_reason == "idle: nothing was said for 1 s"
    assert ended.execution.status == "success"
    sessions.say(caller=operator, session=kept, text="Still there?")
    assert until_heard(kept, 2)[1] == "heard Still there?"


@pytest.mark.usefixtures("runner")
def test_one_that_lasts_too_long_times_out_however_much_is_said(
    make_talker: Callable[..., Agent], open_session: Callable[[Agent], Session]
) -> None:
    script = """#!/usr/bin/env python3
import time
while True:
    print("still here", flush=True)
    time.sleep(0.2)
"""
    session = open_session(make_talker(script, session_timeout=1, keep_alive=True))
    ended = until_closed(session)
    assert ended.execution.status == "timeout"
    assert ended.close_reason == "It did not end within 1 s."
    assert heard(ended)[0] == "still here"


@pytest.mark.usefixtures("runner")
def test_an_agent_that_fails_says_why(
    make_talker: Callable[..., Agent], open_session: Callable[[Agent], Session]
) -> None:
    """It is not tried again, whatever its exit code says: what was said to it is gone."""
    script = "#!/bin/sh\necho here\necho 'no such model' >&2\nexit 75\n"
    ended = until_closed(open_session(make_talker(script, max_retries=3)))
    assert (ended.execution.status, ended.execution.exit_code) == ("failure", 75)
    assert ended.close_reason == "Exit code 75. no such model"
    assert heard(ended) == ["here"]
    assert not ended.execution.attempts.exists()


FLOODS = {
    "lines": "import sys\nwhile True: sys.stdout.write('\\n' * 10000)",
    "bytes": "import sys\nwhile True: sys.stdout.write('x' * 65536)",
}


@pytest.mark.usefixtures("runner")
@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_is_kept_up_to_the_brim_and_ended(
    make_talker: Callable[..., Agent],
    open_session: Callable[[Agent], Session],
    operator: Caller,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    monkeypatch.setattr(transcripts, "MOST_MESSAGES", 100)
    monkeypatch.setattr(transcripts, "MOST_BYTES", 100_000)
    session = open_session(make_talker(f"#!/usr/bin/env python3\n{FLOODS[kind]}\n"))
    ended = until_closed(session)
    assert (ended.execution.status, ended.execution.error_category) == ("failure", "AgentError")
    assert ended.close_reason == "It said more than a session holds and was ended."
    assert sessions.messages(ended).count() == ended.messages_count <= 100
    assert sum(len(text) for text in heard(ended)) <= 2 * 100_000


#: Ways in which one ends by itself, each with its reason.
BY_THEMSELVES: dict[str, tuple[dict[str, object], str]] = {
    "idle": ({"idle_timeout": 1}, "idle: nothing was said for 1 s"),
    "late": ({"session_timeout": 1, "keep_alive": True}, "It did not end within 1 s"),
    "full": ({"cli_args": ["x" * 2000], "keep_alive": True}, "It said more than a session holds"),
}


@pytest.mark.both_databases
@pytest.mark.usefixtures("runner")
@pytest.mark.parametrize("way", BY_THEMSELVES)
def test_what_is_said_while_one_ends_by_itself_is_refused(
    make_talker: Callable[..., Agent],
    open_session: Callable[[Agent], Session],
    operator: Caller,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
) -> None:
    monkeypatch.setattr(transcripts, "MOST_BYTES", 1000)
    for place in ("conversation.GRACE", "conversation.SHORT_GRACE", "program.GRACE"):
        monkeypatch.setattr(f"supervisor.runner.{place}", LONGEST)
    given, why = BY_THEMSELVES[way]
    session = open_session(make_talker(STUBBORN, **given))
    ending = Session.objects.filter(pk=session.pk, state="open", close_requested_at__isnull=False)
    until(ending.exists, "it was being ended")
    with pytest.raises(Conflict, match=f"is being closed. {why}"):
        sessions.say(caller=operator, session=session, text="Wait")
    cancelling.cancel(actor=operator.actor, execution=session.execution, reason="It stays")
    assert not until_closed(session).messages.filter(direction="in").exists()


@pytest.mark.usefixtures("runner")
def test_what_is_said_just_before_one_ends_is_given_and_keeps_it(
    make_talker: Callable[..., Agent],
    open_session: Callable[[Agent], Session],
    operator: Caller,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session, end = open_session(make_talker(idle_timeout=1)), Conversation._end

    def speaks_first(self: Conversation, why: str, **how: bool) -> bool:
        if not said(session):
            sessions.say(caller=operator, session=session, text="Wait")
        return end(self, why, **how)

    monkeypatch.setattr(Conversation, "_end", speaks_first)
    assert until_heard(session, 1) == ["heard Wait"]
    assert until_closed(session).close_reason == "idle: nothing was said for 1 s"


def test_a_session_that_is_full_takes_nothing_more(
    make_talker: Callable[..., Agent],
    open_session: Callable[[Agent], Session],
    operator: Caller,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transcripts, "MOST_MESSAGES", 2)
    session = open_session(make_talker())
    for text in "ab":
        sessions.say(caller=operator, session=session, text=text)
    with pytest.raises(Conflict, match="as long as one may be"):
        sessions.say(caller=operator, session=session, text="c")


def test_one_that_waits_for_a_worker_is_closed_at_once(
    make_talker: Callable[..., Agent], open_session: Callable[[Agent], Session], operator: Caller
) -> None:
    closed = open_session(make_talker())
    sessions.say(caller=operator, session=closed, text="secret")
    ended = sessions.close(actor=operator.actor, session=closed, reason="Changed my mind")
    assert (ended.state, ended.execution.status) == ("closed", "cancelled")
    assert ended.close_reason == "oscar: Changed my mind"
    assert not ended.messages.exclude(sealed_text="").exists()
    stopped = open_session(closed.agent)
    cancelling.cancel(actor=operator.actor, execution=stopped.execution, reason="Not now")
    stopped.refresh_from_db()
    assert (stopped.state, stopped.close_reason) == ("closed", "oscar: Not now")
    late = open_session(closed.agent)
    Execution.objects.filter(pk=late.execution_id).update(wait_until=cast.past(seconds=1))
    reaping.expire()
    late.refresh_from_db()
    assert late.state == "closed"
    assert late.close_reason.startswith("It waited for 1800 s")


@pytest.mark.usefixtures("runner")
def test_stopping_its_run_or_its_identity_ends_it(
    make_talker: Callable[..., Agent], open_session: Callable[[Agent], Session], operator: Caller
) -> None:
    agent = make_talker()
    cancelled, suspended = open_session(agent), open_session(agent)
    for session in (cancelled, suspended):
        sessions.say(caller=operator, session=session, text="Hello")
        until_heard(session, 1)
    cancelling.cancel(actor=operator.actor, execution=cancelled.execution, reason="Enough")
    ended = until_closed(cancelled)
    assert (ended.execution.status, ended.close_reason) == ("cancelled", "oscar: Enough")
    identities.suspend(actor=cast.admin(), identity=agent.identity, reason="Odd behaviour")
    ended = until_closed(suspended)
    assert (ended.execution.status, ended.close_reason) == ("cancelled", "mara: talker was suspended: Odd behaviour")
    assert Execution.objects.open().count() == 0
