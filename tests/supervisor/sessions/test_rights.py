"""Who may open a session, read it, speak in it and close it, over REST."""

from collections.abc import Callable

import pytest

from nhi.access import grants
from nhi.actors import SYSTEM
from nhi.identities import lifecycle as identities
from nhi.models import Identity, NhiPermission
from supervisor import agents
from supervisor.models import Agent
from tests.api.callers import ABSENT, Caller, calling
from tests.nhi import cast

pytestmark = pytest.mark.capability("SUP-08", "SUP-10")
SESSIONS = "supervisor/sessions"


@pytest.fixture
def talker(db: None, make_talker: Callable[..., Agent]) -> Agent:
    """Owned by olga."""
    return make_talker()


@pytest.fixture
def bot(talker: Agent) -> Identity:
    """An agent that may talk to the talker."""
    found = cast.agent("bot", owner=cast.user("bert", "operator"))
    cast.nhi_grant(found, talker.identity, allowed_actions=["session"])
    return found


def opened(who: Caller, agent: Agent) -> str:
    answer = who.post(SESSIONS, {"agent_id": str(agent.pk)})
    assert answer.status == 201, answer.body
    return f"{SESSIONS}/{answer.body['id']}"


def statuses(who: Caller, session: str) -> tuple[int, int, int]:
    """Of reading it, speaking in it and closing it, in an order in which each can still be tried."""
    read = who.get(f"{session}/messages").status
    spoke = who.post(f"{session}/messages", {"text": "Hello"}).status
    return read, spoke, who.post(f"{session}/close", {"reason": "Done"}).status


def test_who_opened_it_speaks_reads_and_closes(talker: Agent, bot: Identity) -> None:
    caller = calling(bot)
    session = opened(caller, talker)
    sent = caller.post(f"{session}/messages", {"text": "Hello\nyou"})
    assert (sent.status, sent.body["seq"], sent.body["direction"], sent.body["said_by"]) == (201, 1, "in", "bot")
    caller.post(f"{session}/messages", {"text": "Are you there?"})
    transcript = caller.get(f"{session}/messages", after=1).body
    assert [message["text"] for message in transcript["messages"]] == ["Are you there?"]
    assert transcript["state"] == "open"
    found = caller.get(SESSIONS, state="open").body
    assert (found["total"], found["sessions"][0]["messages_count"]) == (1, 2)
    closed = caller.post(f"{session}/close")
    assert (closed.status, closed.body["state"], closed.body["close_reason"]) == (200, "closed", "Closed by bot.")
    assert caller.post(f"{session}/close").is_refused(409, "Conflict", "session_over")
    assert caller.post(f"{session}/messages", {"text": "x"}).is_refused(409, "Conflict", "session_over")


def test_others_read_or_speak_by_their_rights(talker: Agent, bot: Identity) -> None:
    other = cast.agent("other")
    cast.nhi_grant(other, talker.identity)
    user = cast.user("uma")
    cast.user_grant(talker.identity, user, "use")
    expected: dict[str, tuple[Caller, tuple[int, int, int]]] = {
        "an operator": (calling(cast.user("oscar", "operator")), (200, 201, 200)),
        "who owns the agent": (calling(cast.user("olga", "operator")), (200, 201, 200)),
        "an approver": (calling(cast.user("tom", "approver")), (200, 403, 403)),
        "an auditor": (calling(cast.user("ada", "auditor")), (200, 403, 403)),
        "who may use the agent too": (calling(user), (404, 404, 404)),
        "another agent that may talk": (calling(other), (404, 404, 404)),
        "a stranger": (calling(cast.agent("stranger")), (404, 404, 404)),
    }
    caller = calling(bot)
    for who, (someone, answers) in expected.items():
        assert statuses(someone, opened(caller, talker)) == answers, who


def test_opening_is_decided_like_every_call(talker: Agent, bot: Identity) -> None:
    stranger, task_only = cast.agent("stranger"), cast.agent("task-only")
    cast.nhi_grant(task_only, talker.identity, allowed_actions=["execute"])
    body = {"agent_id": str(talker.pk)}
    hidden = calling(stranger).post(SESSIONS, body)
    assert hidden.is_refused(400, "InvalidParameters")
    absent = calling(stranger).post(SESSIONS, {"agent_id": ABSENT})
    assert hidden.body["message"] == absent.body["message"]
    assert calling(task_only).post(SESSIONS, body).is_refused(403, "Unauthorized")
    agents.switch(actor=cast.admin(), agent=talker, on=False, reason="Maintenance")
    assert calling(bot).post(SESSIONS, body).is_refused(409, "Conflict", "agent_disabled")


def test_a_task_agent_holds_no_sessions(talker: Agent, make_agent: Callable[..., Agent]) -> None:
    operator = calling(cast.user("oscar", "operator"))
    task = make_agent(name="task")
    answer = operator.post(SESSIONS, {"agent_id": str(task.pk)})
    assert answer.is_refused(409, "Conflict", "not_interactive")
    assert operator.post(f"supervisor/agents/{talker.pk}/execute", {"input": "x"}).status == 409


def test_who_lost_the_grant_speaks_no_more(talker: Agent, bot: Identity) -> None:
    caller = calling(bot)
    session = opened(caller, talker)
    assert caller.post(f"{session}/messages", {"text": "Hello"}).status == 201
    grant = NhiPermission.objects.get(source=bot)
    grants.revoke(actor=SYSTEM, grant=grant, reason="Moved on")
    assert caller.post(f"{session}/messages", {"text": "Still me"}).is_refused(403, "Unauthorized")
    assert caller.get(f"{session}/messages").status == 200


@pytest.mark.django_db(transaction=True)
def test_nobody_speaks_to_an_agent_that_was_stopped(talker: Agent) -> None:
    operator = calling(cast.user("oscar", "operator"))
    session = opened(operator, talker)
    identities.suspend(actor=cast.admin(), identity=talker.identity, reason="Odd behaviour")
    found = operator.get(session).body
    assert (found["state"], found["close_reason"]) == ("closed", "mara: talker was suspended: Odd behaviour")
    assert operator.post(f"{session}/messages", {"text": "Hello"}).status in {403, 409}
