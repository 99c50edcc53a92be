"""Conversations with agents that stay, and what is said in them."""

from typing import Any

from rest_framework import serializers

from common.api.fields import Flag, Identifier, Moment, Text, Whole, Word
from common.api.shapes import Filters, Input, Shape
from nhi.api.shapes import examples as story
from supervisor.api.shapes import examples
from supervisor.choices import Direction, SessionState
from supervisor.models import Session

MOST_NUMBERS = 2**31 - 1


class SessionShape(Shape):
    id = Identifier()
    agent_id = Identifier()
    agent_name = Text(source="agent.name")
    execution_id = Identifier(help_text="The run that holds its process; its outcome is the session's.")
    state = Word(choices=SessionState.choices)
    closing = Flag(help_text="It is being ended and takes nothing more.")
    opened_by_id = Identifier(allow_null=True)
    opened_by = Text(source="opened_by_name")
    created_at = Moment()
    last_message_at = Moment(help_text="Of either direction; until there is one, when it was opened.")
    messages_count = Whole(help_text="Of both directions; the number of the last one.")
    idle_timeout = Whole(allow_null=True, help_text="Seconds without a message; null for one that is kept alive.")
    session_timeout = Whole(source="execution.timeout", help_text="Seconds, from the start of its process.")
    closed_at = Moment(allow_null=True)
    close_reason = Text(help_text="Empty while nothing ends it.")

    example = {
        "id": examples.SESSION,
        "agent_id": examples.AGENT,
        "agent_name": "companion",
        "execution_id": examples.RUN,
        "state": "open",
        "closing": False,
        "opened_by_id": story.DEPLOY_BOT,
        "opened_by": "deploy-bot",
        "created_at": story.NOW,
        "last_message_at": story.NOW,
        "messages_count": 2,
        "idle_timeout": 300,
        "session_timeout": 1800,
        "closed_at": None,
        "close_reason": "",
    }

    def to_representation(self, instance: Session) -> dict[str, Any]:
        return super().to_representation(Standing(instance))


class Standing:
    """A session with what its agent says of all of them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.closing = session.is_closing
        self.idle_timeout = None if session.agent.keep_alive else session.agent.idle_timeout

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


class SessionFilters(Filters):
    agent_id = Identifier(required=False)
    state = Word(choices=SessionState.choices, required=False)


class NewSession(Input):
    agent_id = Identifier(help_text="Of an interactive agent.")

    example = {"agent_id": examples.AGENT}


class NewMessage(Input):
    text = Text(help_text="At most 64 KiB. To an agent that reads lines, line ends inside of it are given as spaces.")

    example = {"text": "I have a cat"}


class WhyClosed(Input):
    reason = Text(required=False, help_text="Why, in at most 500 characters; it is kept on record.")

    example = {"reason": "All said"}


class MessageShape(Shape):
    """What looks like a secret is masked; the agent was given it as it was sent."""

    seq = Whole(help_text="Counted by session over both directions, from 1.")
    direction = Word(choices=Direction.choices)
    text = Text()
    at = Moment()
    said_by = Text(source="said_by_name", help_text="Who sent it; empty for what the agent says.")
    taken_at = Moment(allow_null=True, help_text="When it was on its way to the agent, which is given each once.")

    example = {
        "seq": 1,
        "direction": "in",
        "text": "I have a cat",
        "at": story.NOW,
        "said_by": "deploy-bot",
        "taken_at": None,
    }


class After(Filters):
    after = serializers.IntegerField(
        min_value=0, max_value=MOST_NUMBERS, default=0, help_text="The `seq` of the last message that is known."
    )


class TranscriptShape(Shape):
    """The oldest first, and not always all: ask again with the last `seq` until there are none."""

    messages = MessageShape(many=True)
    state = Word(choices=SessionState.choices)

    example = {"messages": [MessageShape.example], "state": "open"}
