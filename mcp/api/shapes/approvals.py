"""Calls that wait for a person."""

from typing import Any

from django.utils import timezone

from common.api.fields import Flag, Identifier, Mapping, Moment, Text, Whole, Word
from common.api.shapes import Filters, Shape
from common.api.value_fields import Said
from common.redaction import redact
from mcp.api.shapes import examples
from mcp.approvals import decisions
from mcp.choices import ApprovalState
from mcp.models import CallApproval
from nhi.api.shapes import examples as story


class ApprovalShape(Shape):
    id = Identifier(help_text="The id of the call that asked first.")
    state = Word(choices=ApprovalState.choices)
    agent_id = Identifier()
    agent_name = Text()
    tool_id = Identifier()
    tool_name = Text(help_text="`<server>__<tool>`.")
    args_hash = Text()
    arguments = Mapping(
        allow_null=True, help_text="As they were sent, for those who may decide while it waits; else redacted."
    )
    context = Mapping(help_text="What the caller said of why.")  # type: ignore[assignment]  # its name on the wire
    grant_id = Identifier(allow_null=True)
    asked_at = Moment()
    expires_at = Moment(help_text="Until then it may be decided, or the permit used.")
    attempts = Whole()
    decided_at = Moment(allow_null=True)
    decided_by = Said()
    reason = Said()
    used_by = Identifier(allow_null=True, help_text="The call that used the permit.")
    needs_superuser = Flag(help_text="Everybody who may decide stands behind the call; only a superuser can.")

    example = {
        "id": examples.CALL,
        "state": "pending",
        "agent_id": story.DEPLOY_BOT,
        "agent_name": "deploy-bot",
        "tool_id": examples.CREATE_TODO,
        "tool_name": "todo__create_todo",
        "args_hash": examples.ARGS_HASH,
        "arguments": {"title": "Ship 1.0"},
        "context": {},
        "grant_id": story.GRANT,
        "asked_at": story.NOW,
        "expires_at": "2026-11-18T10:15:00.000000Z",
        "attempts": 1,
        "decided_at": None,
        "decided_by": None,
        "reason": None,
        "used_by": None,
        "needs_superuser": False,
    }

    def to_representation(self, instance: CallApproval) -> dict[str, Any]:
        return super().to_representation(Waiting(instance))


class ApprovalFilters(Filters):
    state = Word(choices=ApprovalState.choices, required=False)
    agent_id = Identifier(required=False)
    tool_id = Identifier(required=False)


class Waiting:
    """An approval as this reader sees it: time passes, and not everybody is shown exact arguments."""

    def __init__(self, approval: CallApproval) -> None:
        self._approval = approval
        self.decided_by = approval.decided_by_name
        self.state = state_of(approval)

    @property
    def arguments(self) -> Any:
        sent = decisions.read_arguments(self._approval)
        exact = getattr(self._approval, "reader_decides", False)
        return sent if exact or sent is None else redact(sent)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._approval, name)


def state_of(approval: CallApproval) -> str:
    """What nobody decided about in time is expired before anything sweeps it."""
    over = approval.expires_at <= timezone.now()
    open_still = approval.state in (ApprovalState.PENDING, ApprovalState.APPROVED)
    return str(ApprovalState.EXPIRED if over and open_still else approval.state)
