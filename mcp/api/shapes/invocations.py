"""The log of calls."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from common.api.fields import Flag, Identifier, Moment, QueryMoment, Text, Whole, Word
from common.api.shapes import Filters, Shape
from common.api.value_fields import Number
from mcp.api.shapes import examples
from mcp.gateway import public_messages
from nhi.api.shapes import examples as story
from nhi.choices import CallStatus


@extend_schema_field({"type": "string"})
class MessageForReader(serializers.Field[Any, Any, Any, Any]):
    """A row's message in full for people, and as its caller got it for identities (`to_identity` on the row)."""

    def to_representation(self, value: Any) -> str:
        return public_messages.row_message(value) if getattr(value, "to_identity", False) else str(value.error_message)


class LinkShape(Shape):
    id = Identifier()
    name = Text()


class CountedShape(Shape):
    """Beyond 600 refusals of one identity in a minute, those of one tool and reason are one row."""

    count = Whole(required=False)
    minute = Moment(required=False)

    def to_representation(self, instance: dict[str, Any]) -> dict[str, Any]:
        return {name: instance[name] for name in ("count", "minute") if name in instance}


class InvocationShape(Shape):
    id = Identifier(help_text="The call's.")
    timestamp = Moment()
    run_id = Identifier(help_text="The run whose token made the call; the call's own id where no run did.")
    agent_id = Identifier()
    agent_name = Text()
    agent_role = Text(help_text="The role that let it pass; empty for a direct grant.")
    tool_id = Identifier(allow_null=True, help_text="Null for a name that no tool has.")
    tool_name = Text(help_text="The server's name.")
    method = Text(help_text="The tool, as its server calls it.")
    args_hash = Text(help_text="SHA-256 over the canonical JSON (RFC 8785) of the parameters.")
    redaction_applied = Flag()
    duration = Number(help_text="Milliseconds.")
    status = Word(choices=CallStatus.choices)
    error_code = Text()
    error_message = MessageForReader(
        source="*", help_text="For an identity a sentence without the operator's details; for people all of it."
    )
    reason = Text(help_text="A stable code; empty for a success.")
    request_id = Identifier()
    thread_id = Text()
    session_id = Text()
    task_id = Text()
    decision_id = Identifier(allow_null=True)
    grant_id = Identifier(allow_null=True)
    role_id = Identifier(allow_null=True)
    chain = LinkShape(many=True, help_text="Root … caller.")
    calls = Whole(help_text="How many calls this row stands for: 1, or `details.count` refused ones.")
    details = CountedShape(help_text="Empty, but for a row that counts refused calls.")
    source = Text()  # type: ignore[assignment]  # its name on the wire; the metaclass takes it away

    example = {
        "id": examples.CALL,
        "timestamp": story.NOW,
        "run_id": examples.CALL,
        "agent_id": story.DEPLOY_BOT,
        "agent_name": "deploy-bot",
        "agent_role": "",
        "tool_id": examples.CREATE_TODO,
        "tool_name": "todo",
        "method": "create_todo",
        "args_hash": examples.ARGS_HASH,
        "redaction_applied": False,
        "duration": 11.8,
        "status": "success",
        "error_code": "",
        "error_message": "",
        "reason": "",
        "request_id": story.REQUEST,
        "thread_id": "",
        "session_id": "",
        "task_id": "",
        "decision_id": story.DECISION,
        "grant_id": story.GRANT,
        "role_id": None,
        "chain": [{"id": story.DEPLOY_BOT, "name": "deploy-bot"}],
        "calls": 1,
        "details": {},
        "source": "192.0.2.7",
    }


class InvocationFilters(Filters):
    agent_id = Identifier(required=False)
    tool_name = serializers.CharField(required=False, help_text="A server's name.")
    method = serializers.CharField(required=False, help_text="A tool, as its server calls it.")
    status = Word(choices=CallStatus.choices, required=False)
    reason = serializers.CharField(required=False)
    request_id = Identifier(required=False)
    run_id = Identifier(required=False)
    since = QueryMoment(required=False, help_text="This moment and later.")
    until = QueryMoment(required=False, help_text="Before this moment.")
