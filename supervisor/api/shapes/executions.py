"""Runs as they are read, waited for, followed and stopped."""

from copy import copy
from typing import Any

from rest_framework import serializers

from common.api.fields import Flag, Identifier, Mapping, Moment, Text, Whole, Word
from common.api.shapes import Filters, Input, Shape
from common.api.value_fields import Number, Said, Seconds
from nhi.api.shapes import examples as story
from supervisor import public_errors
from supervisor.api import outcomes
from supervisor.api.shapes import examples
from supervisor.api.shapes.fields import QuerySeconds, WordOrNull
from supervisor.choices import ErrorCategory, ExecutionState, ExecutionStatus, Mode, Trigger
from supervisor.models import Execution, ResourceUsage

CANCELLED = "Cancelled by API"


class Shown:
    """A run, with what is read of its relations, which came with its row."""

    def __init__(self, run: Execution) -> None:
        self._run = run

    @property
    def input(self) -> str:
        beginning: str | None = getattr(self._run, "beginning", None)
        return self._run.input if beginning is None else beginning

    @property
    def error_message(self) -> str:
        return public_errors.of_run(self._run) if self._to_identity else self._run.error_message

    @property
    def measured(self) -> ResourceUsage | None:
        return getattr(self._run, "usage", None)

    @property
    def result(self) -> outcomes.Outcome | None:
        return outcomes.of(self._run, error_message=self.error_message)

    @property
    def state_transitions(self) -> Any:
        moves = list(self._run.transitions.all())
        for move in moves if self._to_identity else ():
            move.reason = public_errors.of_transition(self._run, move.reason)
        return moves

    @property
    def previous_retries(self) -> Any:
        attempts = list(self._run.attempts.all())
        if not self._to_identity:
            return attempts
        public = [copy(attempt) for attempt in attempts]
        for attempt in public:
            attempt.error_message = public_errors.of_failure(self._run, attempt)
        return public

    @property
    def _to_identity(self) -> bool:
        """Whether an identity reads it, which gets no text that is an operator's."""
        return bool(getattr(self._run, "to_identity", False))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)


class StartedByShape(Shape):
    kind = Text(source="started_by_kind")
    id = Identifier(source="started_by_id", allow_null=True)
    name = Text(source="started_by_name")


class RunUsageShape(Shape):
    """As the operating system counted it."""

    cpu_percent = Number(help_text="Of one processor, over the whole run.")
    cpu_seconds = Number()
    memory_mb = Number(help_text="When it was looked at last.")
    peak_memory_mb = Number()
    disk_read_mb = Number()
    disk_write_mb = Number()
    processes = Whole(help_text="The most at once.")

    example = {
        "cpu_percent": 41.5,
        "cpu_seconds": 0.953,
        "memory_mb": 30.1,
        "peak_memory_mb": 44.8,
        "disk_read_mb": 0.0,
        "disk_write_mb": 0.1,
        "processes": 2,
    }


class ExecutionItem(Shape):
    """A run in a list."""

    id = Identifier()
    agent_id = Identifier()
    agent_name = Text()
    identity_id = Identifier()
    identity_name = Text()
    number = Whole(help_text="Counted by agent.")
    mode = Word(choices=Mode.choices)
    state = Word(choices=ExecutionState.choices)
    previous_state = WordOrNull(choices=ExecutionState.choices)
    status = WordOrNull(choices=ExecutionStatus.choices, help_text="Null until the run is done; then it stays.")
    created_at = Moment()
    start_time = Moment(allow_null=True)
    end_time = Moment(allow_null=True)
    last_state_change = Moment()
    queue_position = Whole(allow_null=True, help_text="How many runs of the agent start before it, while it is queued.")
    input = Text(help_text="As it may be shown; in a list its first 1,000 characters.")
    input_bytes = Whole()
    parameters = Mapping()
    working_directory = Text()
    process_id = Whole(allow_null=True)
    exit_code = Whole(allow_null=True)
    error_message = Said()
    error_category = WordOrNull(choices=ErrorCategory.choices)
    retry_count = Whole()
    max_retries = Whole()
    timeout = Seconds(help_text="Like `300s`.")
    resource_usage = RunUsageShape(source="measured", allow_null=True)
    context = Mapping()  # type: ignore[assignment]  # its name on the wire; the metaclass takes it away
    trigger = Word(choices=Trigger.choices)
    started_by = StartedByShape(source="*")
    schedule_id = Identifier(allow_null=True)
    task_id = Identifier(allow_null=True)
    request_id = Identifier(allow_null=True)
    cancel_requested_at = Moment(allow_null=True)
    cancelled_by = Said(source="cancelled_by_name")
    cancel_reason = Said()

    example = {
        "id": examples.RUN,
        "agent_id": examples.AGENT,
        "agent_name": "summarise",
        "identity_id": story.DEPLOY_BOT,
        "identity_name": "deploy-bot",
        "number": 88,
        "mode": "task",
        "state": "idle",
        "previous_state": "cleanup",
        "status": "success",
        "created_at": examples.ASKED,
        "start_time": examples.BEGAN,
        "end_time": examples.ENDED,
        "last_state_change": examples.FREED,
        "queue_position": None,
        "input": "Plants need water.",
        "input_bytes": 18,
        "parameters": {},
        "working_directory": "",
        "process_id": 4711,
        "exit_code": 0,
        "error_message": None,
        "error_category": None,
        "retry_count": 0,
        "max_retries": 3,
        "timeout": "300s",
        "resource_usage": RunUsageShape.example,
        "context": {"env_vars": [], "by": {"right": "supervisor.run_agent"}},
        "trigger": "api",
        "started_by": {"kind": "user", "id": story.OLGA, "name": "olga"},
        "schedule_id": None,
        "task_id": None,
        "request_id": story.REQUEST,
        "cancel_requested_at": None,
        "cancelled_by": None,
        "cancel_reason": None,
    }

    def to_representation(self, instance: Execution) -> dict[str, Any]:
        return super().to_representation(Shown(instance))


class RunResultShape(Shape):
    status = Word(choices=ExecutionStatus.choices)
    output = Text(help_text="At most 1 MiB, without what looks like a secret.")
    error = Text(help_text="What it wrote as errors; where it wrote none, the run's error message.")
    execution_time = Whole(help_text="Milliseconds, all attempts together.")
    output_bytes = Whole(help_text="As it was written, before anything was left out.")
    error_bytes = Whole()
    output_truncated = Flag()
    error_truncated = Flag()

    example = {
        "status": "success",
        "output": "Lines: 1\nWords: 3\nIt begins: Plants need water.\n",
        "error": "",
        "execution_time": 2300,
        "output_bytes": 48,
        "error_bytes": 0,
        "output_truncated": False,
        "error_truncated": False,
    }


class TransitionShape(Shape):
    to = Word(source="to_state", choices=ExecutionState.choices)
    at = Moment()
    reason = Text()

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """A word that Python keeps for itself."""
        return {"from": WordOrNull(source="from_state", choices=ExecutionState.choices), **super().get_fields()}


class RetryShape(Shape):
    """An attempt that failed and was followed by another."""

    attempt = Whole(help_text="From 1.")
    start_time = Moment(allow_null=True)
    end_time = Moment()
    exit_code = Whole(allow_null=True)
    error_category = WordOrNull(choices=ErrorCategory.choices)
    error_message = Said()


class ExecutionShape(ExecutionItem):
    result = RunResultShape(allow_null=True, help_text="Null until the run is done.")
    state_transitions = TransitionShape(many=True)
    previous_retries = RetryShape(many=True)

    example = {
        **ExecutionItem.example,
        "result": RunResultShape.example,
        "state_transitions": [
            {"from": None, "to": "queued", "at": examples.ASKED, "reason": "Asked for by olga."},
            {"from": "queued", "to": "starting", "at": examples.BEGAN, "reason": "Slot 1."},
            {"from": "starting", "to": "running", "at": examples.RAN, "reason": "Process 4711."},
            {"from": "running", "to": "completed", "at": examples.ENDED, "reason": ""},
            {"from": "completed", "to": "cleanup", "at": examples.ENDED, "reason": ""},
            {"from": "cleanup", "to": "idle", "at": examples.FREED, "reason": ""},
        ],
        "previous_retries": [],
    }


class ExecutionFilters(Filters):
    agent_id = Identifier(required=False)
    identity_id = Identifier(required=False)
    state = Word(choices=ExecutionState.choices, required=False, help_text="`completed` and the like mean the outcome.")
    status = Word(choices=ExecutionStatus.choices, required=False)
    active = serializers.BooleanField(required=False, help_text="Whether a process of it is starting or running.")
    trigger = Word(choices=Trigger.choices, required=False)
    error_category = Word(choices=ErrorCategory.choices, required=False)
    schedule_id = Identifier(required=False)
    task_id = Identifier(required=False)


class Waiting(Filters):
    timeout = QuerySeconds(default=60.0, help_text="Seconds; at most 300, a larger one means 300.")


class Following(Filters):
    format = Word(choices=["sse", "text"], default="sse", help_text="`text`: what there is by now.")
    stream = Word(
        choices=["out", "err", "all"], default="out", help_text="Of the text; events are of both and say which."
    )
    after = serializers.IntegerField(
        min_value=0, max_value=2**31 - 1, default=0,
        help_text="The `seq` of the last event that is known; `Last-Event-ID` says the same.",
    )  # fmt: skip


class WhyCancelled(Input):
    reason = Text(required=False, help_text=f'"{CANCELLED}" when left out; it is kept on record.')

    example = {"reason": "It was given the wrong file"}
