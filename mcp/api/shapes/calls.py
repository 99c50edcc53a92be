"""Calling a tool, and asking later what became of it."""

from rest_framework import serializers

from common.api.fields import Identifier, Mapping, Moment, Text, Word
from common.api.shapes import Input, Shape
from common.api.value_fields import Number, Said
from mcp.api.shapes import examples
from nhi.api.shapes import examples as story

STATUSES = ("pending", "approved", "refused", "expired", "used", "done")


class AroundCall(Input):
    """What the caller says around its call; kept with its row, and decided upon by nothing."""

    conversation_id = Text(required=False, allow_null=True)
    session_id = Text(required=False, allow_null=True)
    task_id = Text(required=False, allow_null=True)
    user_instruction = Text(required=False, allow_null=True)


class CallGiven(Input):
    parameters = Mapping(help_text="The tool's arguments; {} for none.")
    context = AroundCall(required=False)  # type: ignore[assignment]  # its name on the wire

    example = {"parameters": {"title": "Ship 1.0"}, "context": {"conversation_id": "c-17"}}


class Contents(serializers.ListField):
    child = Mapping()


class ResultShape(Shape):
    content = Contents(help_text="As MCP has it.")
    structured_content = Mapping(required=False)


class CalledShape(Shape):
    """Headers: X-Call-ID, and RateLimit-Remaining and RateLimit-Reset where a budget applies."""

    call_id = Identifier()
    result = ResultShape()
    latency_ms = Number()

    example = {
        "call_id": examples.CALL,
        "result": {"content": [{"type": "text", "text": "Created todo 1."}], "structured_content": {"id": 1}},
        "latency_ms": 11.8,
    }


class PendingShape(Shape):
    """The call waits for a person. Send it again, as it is, once it was approved."""

    call_id = Identifier()
    status = Word(choices=["pending_approval"])
    expires_at = Moment()
    message = Text(required=False, help_text="Only when nobody who holds a deciding role may decide: names the roles.")

    example = {
        "call_id": examples.CALL,
        "status": "pending_approval",
        "expires_at": "2026-11-18T10:15:00.000000Z",
    }


class CallShape(Shape):
    call_id = Identifier()
    status = Word(
        choices=STATUSES,
        help_text="`pending`: under way, or waiting for a person; `done`: its row is in the log.",
    )
    agent_id = Identifier()
    tool = Text(help_text="`<server>__<tool>`.")
    asked_at = Moment()
    reason = Said(help_text="The row's; `in_flight` while it is under way.")
    approval_id = Identifier(allow_null=True)
    expires_at = Moment(allow_null=True, help_text="Until then it may be decided, or the permit used.")
    used_by = Identifier(allow_null=True, help_text="The call that used the permit.")
    outcome = Said(help_text="`status` of its row in mcp/invocations; null while there is none.")
    message = Said(help_text="Of a call that waits for a person: what it waits for; else null.")

    example = {
        "call_id": examples.CALL,
        "status": "approved",
        "agent_id": story.DEPLOY_BOT,
        "tool": "todo__create_todo",
        "asked_at": story.NOW,
        "reason": "approval_required",
        "approval_id": examples.CALL,
        "expires_at": "2026-11-18T10:15:00.000000Z",
        "used_by": None,
        "outcome": "permission_denied",
        "message": None,
    }
