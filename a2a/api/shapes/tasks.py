"""Tasks as seed 002's contract has them, with what was added to it."""

from typing import Any

from rest_framework import serializers

from a2a.choices import TaskState, Word
from common.api.fields import Identifier, Mapping, Moment, Text
from common.api.fields import Word as OneOf
from common.api.shapes import Filters, Input, Shape
from nhi.api.shapes import examples as story

TASK = "01932f0a-7c11-7d2e-9a51-0c6f1f2b3b01"
CONTEXT = "01932f0a-7c11-7d2e-9a51-0c6f1f2b3b02"
DONE = "2026-11-18T10:00:02.000000Z"
ASKED = {"document": "minutes.md"}


class Said(Text):
    """Null where nothing was said."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_null": True, **options})

    def to_representation(self, value: Any) -> Any:
        return super().to_representation(value) if value else None


class ChainLinkShape(Shape):
    id = Identifier()
    name = Text()


class TaskItem(Shape):
    id = Identifier()
    source_agent_id = Identifier(source="source_id", allow_null=True, help_text="Who asked; null for people.")
    target_agent_id = Identifier(source="agent_id", allow_null=True)
    task_type = Text()
    state = OneOf(source="word", choices=Word.choices)
    result = serializers.JSONField(help_text="What the agent made, once it is completed.")
    error_code = Said(help_text="Once it failed or was cancelled by something.")
    error_message = Said()
    created_at = Moment()
    started_at = Moment(allow_null=True)
    completed_at = Moment(allow_null=True, help_text="When it ended, whatever became of it.")

    example = {
        "id": TASK,
        "source_agent_id": story.DEPLOY_BOT,
        "target_agent_id": story.WRITER,
        "task_type": "summarise",
        "state": "completed",
        "result": {"summary": "All agreed."},
        "error_code": None,
        "error_message": None,
        "created_at": story.NOW,
        "started_at": story.NOW,
        "completed_at": DONE,
    }


class TaskShape(TaskItem):
    a2a_state = OneOf(source="state", choices=TaskState.choices, help_text="Of the protocol's eight.")
    input = serializers.JSONField(help_text="Without what looks like a secret.")
    chain = ChainLinkShape(many=True)
    parent_task_id = Identifier(source="parent_id", allow_null=True)
    sent_by_run_id = Identifier(allow_null=True, help_text="The run whose token sent it; null for every other sender.")
    context_id = Text()
    deadline = Moment(allow_null=True)
    callback_url = Said(help_text="Where its end is told; without what looks like a secret.")

    example = {
        **TaskItem.example,
        "a2a_state": "completed",
        "input": ASKED,
        "chain": [{"id": story.DEPLOY_BOT, "name": "deploy-bot"}],
        "parent_task_id": None,
        "sent_by_run_id": None,
        "context_id": CONTEXT,
        "deadline": None,
        "callback_url": None,
    }


class TaskFilters(Filters):
    state = OneOf(choices=Word.choices, required=False)
    target_agent_id = Identifier(source="agent_id", required=False)


class NewTask(Input):
    target_agent_id = Identifier()
    task_type = Text(help_text="What kind of task it is; grants may allow some types only. At most 200 characters.")
    input = Mapping(help_text="What the agent is given.")
    source_agent_id = Identifier(
        required=False, allow_null=True, help_text="In whose name; another than your own needs a right of its own."
    )
    parent_task_id = Identifier(
        required=False, allow_null=True, help_text="An open task of yours; this is a part of it and cancelled with it."
    )  # fmt: skip
    context_id = Text(required=False, help_text="What keeps tasks of one conversation together; made up when left out.")
    deadline = Moment(required=False, allow_null=True, help_text="It fails when it is not done by then.")
    callback_url = Text(
        required=False, allow_null=True, help_text="Where its end is told by a signed POST; see webhook secrets."
    )  # fmt: skip

    example = {"target_agent_id": story.WRITER, "task_type": "summarise", "input": ASKED}


class CreatedShape(Shape):
    task_id = Identifier(source="id")
    status = OneOf(source="word", choices=Word.choices)
    created_at = Moment()

    example = {"task_id": TASK, "status": "pending", "created_at": story.NOW}


class WhyTaskCancelled(Input):
    reason = Text(required=False, help_text="Why, in at most 500 characters; it is kept on record.")

    example = {"reason": "Not needed any more"}


class CancelledShape(Shape):
    task_id = Identifier(source="id")
    state = OneOf(source="word", choices=Word.choices)
    cancelled_at = Moment(source="completed_at")

    example = {"task_id": TASK, "state": "cancelled", "cancelled_at": DONE}
