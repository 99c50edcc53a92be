"""What is said in a session, and waiting for it."""

from supervisor import sessions
from supervisor.choices import SessionState
from supervisor.models import Session
from tests.supervisor.waiting import until

ECHOES = """#!/usr/bin/env python3
import sys
for line in sys.stdin:
    print("heard", line.rstrip(), flush=True)
"""


def heard(session: Session) -> list[str]:
    """What the agent said so far."""
    return list(sessions.messages(session).filter(direction="out").values_list("text", flat=True))


def said(session: Session) -> list[str]:
    return list(sessions.messages(session).filter(direction="in").values_list("text", flat=True))


def until_heard(session: Session, count: int) -> list[str]:
    until(lambda: len(heard(session)) >= count, f"the agent had said {count} things")
    return heard(session)


def until_closed(session: Session) -> Session:
    """And its run is over and cleared away."""
    closed = Session.objects.filter(pk=session.pk, state=SessionState.CLOSED, execution__state="idle")
    until(closed.exists, f"the {session} was closed")
    session.refresh_from_db()
    session.execution.refresh_from_db()
    return session
