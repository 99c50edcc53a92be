"""Conversations with an interactive agent: opened, spoken in, closed. The process itself is a worker's.

Whoever opened one speaks in it, and so does who handles the agent or may run all of them, each time only as long as
they may run the agent at all. Who merely may read sessions reads them.
"""

from django.db import transaction
from django.db.models import QuerySet

from common.errors import Conflict, NotAllowed
from common.redaction import Redactor
from nhi.actors import Actor
from nhi.audit import events
from nhi.credentials import run_tokens
from nhi.models import Identity
from nhi.validation import Problems
from supervisor import access, agents, cancelling, lifecycle, submitting, transcripts, waking
from supervisor.access import Caller
from supervisor.choices import ExecutionState, Mode, SessionState, Trigger
from supervisor.models import Agent, Execution, Session, SessionMessage

NUL, ITS_PICTURE = "\0", "\N{SYMBOL FOR NULL}"


class NotInteractive(Conflict):
    code = "not_interactive"


class SessionOver(Conflict):
    """It is closed, is being closed, or is full."""

    code = "session_over"


def open(*, caller: Caller, agent: Agent) -> Session:  # noqa: A001 - read as sessions.open
    """Start an agent that stays, as soon as there is a place for it; messages may be sent at once and wait for it."""
    by = access.require(caller, agent, action=access.TALK)
    if agent.mode != Mode.INTERACTIVE:
        raise NotInteractive(f"{agent} runs tasks and holds no sessions: execute it.")
    wish = submitting.Wish(trigger=Trigger.SESSION)
    submitting.check(agent, wish)
    with transaction.atomic():
        locked = Agent.objects.select_for_update(of=("self",)).select_related("identity").get(pk=agent.pk)
        execution = submitting.insert(caller=caller, agent=locked, wish=wish, by=by).execution
        session = Session.objects.create(
            agent=locked, execution=execution, opened_by_id=caller.actor.id, opened_by_name=caller.actor.name,
            created_at=execution.created_at, last_message_at=execution.created_at,
        )  # fmt: skip
        details = {"session": str(session.pk), "run": str(execution.pk)}
        events.write("session.opened", actor=caller.actor, subject=locked, details=details)
    waking.wake()
    return session


def say(*, caller: Caller, session: Session, text: str) -> SessionMessage:
    """Send the agent a message. It is given each once, in the order of their numbers."""
    if not may_speak(caller.actor, session):
        raise NotAllowed(f"You may not speak in this {session}: {session.opened_by_name} opened it.")
    _check(text)
    access.require(caller, session.agent, action=access.TALK)
    shown = Redactor(secret_values=agents.secret_values(session.agent)).redact_text(text).replace(NUL, ITS_PICTURE)
    with transaction.atomic():
        current = transcripts.locked(session)
        _require_open(current)
        if transcripts.is_full(current):
            raise SessionOver(f"This {current} is as long as one may be. Open another.")
        return transcripts.say(
            current, text=text, shown=shown, by=caller.actor, run_id=run_tokens.run_id_of(caller.shown)
        )


def messages(session: Session, *, after: int = 0) -> QuerySet[SessionMessage]:
    return SessionMessage.objects.filter(session=session, seq__gt=after).order_by("seq")


def close(*, actor: Actor, session: Session, reason: str = "") -> Session:
    """End it: its process is given the end of its input, then two seconds, then signals. One that waits ends now."""
    cancelling.require(actor, session.execution)
    problems = Problems()
    problems.check_reason(reason, required=False)
    problems.raise_if_any()
    said = f"{actor.name}: {reason}" if reason else f"Closed by {actor.name}."
    with transaction.atomic():
        # The run's row before the session's, as everybody who ends one.
        run = Execution.objects.select_for_update(of=("self",)).select_related("agent").get(pk=session.execution_id)
        current = transcripts.locked(session)
        _require_open(current)
        transcripts.ask_for_end(current, said)
        if run.state == ExecutionState.QUEUED:
            lifecycle.walk(run, lifecycle.to_the_end(ExecutionState.CANCELLED, said))
        events.write("session.closed", actor=actor, subject=current, reason=reason, details={"run": str(run.pk)})
    return Session.objects.select_related("agent__identity", "execution").get(pk=session.pk)


def may_speak(actor: Actor, session: Session) -> bool:
    if actor.only_reads:
        return False
    if actor.may(access.RUN) or (actor.id is not None and actor.id == session.opened_by_id):
        return True
    return Identity.objects.managed_by(actor).filter(pk=session.agent.identity_id).exists()


def _check(text: str) -> None:
    problems = Problems()
    size = len(text.encode(errors="surrogatepass"))
    problems.unless(text, "text", "Say something.")
    problems.unless(size <= transcripts.LONGEST, "text", "Use at most 64 KiB.")
    problems.unless(submitting.encodes(text), "text", "This holds half of a character; send whole ones.")
    problems.raise_if_any()


def _require_open(session: Session) -> None:
    if session.state == SessionState.CLOSED:
        raise SessionOver(f"This {session} is closed. {session.close_reason}".strip())
    if not transcripts.is_open(session):
        raise SessionOver(f"This {session} is being closed. {session.close_reason}".strip())
