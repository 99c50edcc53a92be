"""Conversations: opening one, speaking and listening in it, closing it."""

from typing import Any
from uuid import UUID

from common.api.operations import listing, operation, reading
from nhi.api.views import ApiView
from supervisor import sessions
from supervisor.api.agents import caller_of
from supervisor.api.shapes import sessions as shapes
from supervisor.models import Agent, Session, SessionMessage

ROWS = Session.objects.select_related("agent__identity", "execution")
#: Of one answer.
MOST_MESSAGES = 500


class Sessions(ApiView):
    @listing(gives=shapes.SessionShape, filters=shapes.SessionFilters)
    def get(self, asked: dict[str, Any]) -> Any:
        """List sessions

        Newest first: those you opened and those with agents whose identities you manage; all of them for console
        roles."""
        return ROWS.visible_to(self.actor).filter(**asked)

    @operation(takes=shapes.NewSession, gives=shapes.SessionShape, status=201, refusals=(409,))
    def post(self, given: dict[str, Any]) -> Session:
        """Open a session

        With an interactive agent, for whoever may run it; a grant that names actions needs `session`. Its process
        starts as soon as there is a place for it, and messages may be sent at once. 409 for an agent that runs tasks
        or is switched off; 503 with `queue_full` or `overloaded`, and `Retry-After`, while there is no room."""
        agent = self.named(Agent.objects.select_related("identity"), "agent_id", given["agent_id"])
        return sessions.open(caller=caller_of(self), agent=agent)


class OfSession(ApiView):
    session: Session

    def find(self, **path: UUID) -> None:
        self.session = self.visible(ROWS.all(), path["session_id"])


class OneSession(OfSession):
    @operation(gives=shapes.SessionShape)
    def get(self) -> Session:
        """Read a session"""
        return self.session


class Messages(OfSession):
    @reading(gives=shapes.TranscriptShape, filters=shapes.After)
    def get(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Read what was said

        Both ways, in order, behind `after`; at most 500 messages an answer. The agent's are there within half a second
        of its line's end."""
        found = sessions.messages(self.session, after=asked["after"])[:MOST_MESSAGES]
        return {"messages": found, "state": self.session.state}

    @operation(takes=shapes.NewMessage, gives=shapes.MessageShape, status=201, refusals=(409,))
    def post(self, given: dict[str, Any]) -> SessionMessage:
        """Say something

        For who opened the session, who manages the agent's identity, and the right to run any agent; each must still
        be allowed to run the agent. 409 once the session is closed, is being closed, or is full at 10,000 messages or
        10 MiB."""
        return sessions.say(caller=caller_of(self), session=self.session, text=given["text"])


class Close(OfSession):
    @operation(takes=shapes.WhyClosed, gives=shapes.SessionShape, refusals=(409,))
    def post(self, given: dict[str, Any]) -> Session:
        """Close a session

        The agent's input ends; if it has not ended 2 seconds later it is asked to, and 5 seconds after that its
        processes are ended. One that waits for a place is closed at once. 409 for one that is closed, or is being
        closed already."""
        return sessions.close(actor=self.actor, session=self.session, reason=given.get("reason", ""))
