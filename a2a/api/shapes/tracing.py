"""A whole chain: tasks, runs and calls, each with what it is a part of."""

from rest_framework import serializers

from a2a.api.shapes.tasks import Said
from a2a.choices import TaskState, Word
from common.api.fields import Identifier, Moment, Text
from common.api.fields import Word as OneOf
from common.api.shapes import Shape
from nhi.api.shapes import examples as story
from nhi.choices import CallStatus, PermissionType
from supervisor.choices import ExecutionState, ExecutionStatus

TASK = "01932f0a-7c11-7d2e-9a51-0c6f1f2b3b01"
RUN = "01932f0a-7c11-7d2e-9a51-0c6f1f2b3b31"
CALL = "01932f0a-7c11-7d2e-9a51-0c6f1f2b3b32"


class TracedTask(Shape):
    id = Identifier()
    parent_task_id = Identifier(source="parent_id", allow_null=True)
    parent_execution_id = Identifier(allow_null=True, help_text="The run of that task, which sent this one.")
    source_agent_id = Identifier(source="source_id", allow_null=True, help_text="Who asked; null for people.")
    source_name = Text(source="asked_by")
    target_agent_id = Identifier(source="agent_id")
    target_name = Text(source="agent_name")
    permission_type = OneOf(choices=PermissionType.choices, help_text="Whether it acts on its caller's behalf.")
    task_type = Text()
    state = OneOf(source="word", choices=Word.choices)
    a2a_state = OneOf(source="state", choices=TaskState.choices)
    error_code = Said()
    created_at = Moment()
    started_at = Moment(allow_null=True)
    completed_at = Moment(allow_null=True)

    example = {
        "id": TASK,
        "parent_task_id": None,
        "parent_execution_id": None,
        "source_agent_id": story.DEPLOY_BOT,
        "source_name": "deploy-bot",
        "target_agent_id": story.WRITER,
        "target_name": "writer",
        "permission_type": "delegate",
        "task_type": "summarise",
        "state": "running",
        "a2a_state": "working",
        "error_code": None,
        "created_at": story.NOW,
        "started_at": story.NOW,
        "completed_at": None,
    }


class TracedRun(Shape):
    id = Identifier()
    task_id = Identifier(allow_null=True, help_text="The task that it is for.")
    parent_id = Identifier(allow_null=True, help_text="The run that asked for it.")
    agent_id = Identifier()
    agent_name = Text()
    state = OneOf(choices=ExecutionState.choices)
    status = OneOf(choices=ExecutionStatus.choices, allow_null=True)
    created_at = Moment()
    start_time = Moment(allow_null=True)
    end_time = Moment(allow_null=True)

    example = {
        "id": RUN,
        "task_id": TASK,
        "parent_id": None,
        "agent_id": story.WRITER,
        "agent_name": "writer",
        "state": "running",
        "status": None,
        "created_at": story.NOW,
        "start_time": story.NOW,
        "end_time": None,
    }


class TracedCall(Shape):
    id = Identifier(help_text="The call's; `mcp/invocations/{id}` has the rest.")
    task_id = Said()
    run_id = Identifier()
    agent_id = Identifier()
    agent_name = Text()
    tool_name = Text()
    method = Text()
    status = OneOf(choices=CallStatus.choices)
    reason = Text()
    timestamp = Moment()
    duration = serializers.FloatField(help_text="Milliseconds.")

    example = {
        "id": CALL,
        "task_id": TASK,
        "run_id": RUN,
        "agent_id": story.WRITER,
        "agent_name": "writer",
        "tool_name": "github",
        "method": "search",
        "status": "success",
        "reason": "",
        "timestamp": story.NOW,
        "duration": 212.0,
    }


class TraceShape(Shape):
    tasks = TracedTask(many=True)
    executions = TracedRun(many=True)
    calls = TracedCall(many=True)
    truncated = serializers.BooleanField(help_text="There is more of it than is told here.")

    example = {
        "tasks": [TracedTask.example],
        "executions": [TracedRun.example],
        "calls": [TracedCall.example],
        "truncated": False,
    }
