"""The closed vocabularies of the supervisor, and the moves between states."""

from django.db.models import TextChoices


class Kind(TextChoices):
    """What runs: a program of this host, or a model that calls tools."""

    PROCESS = "process", "Program"
    MODEL = "model", "Model"


class Mode(TextChoices):
    TASK = "task", "Task"
    INTERACTIVE = "interactive", "Interactive"


class InputPattern(TextChoices):
    STDIN = "stdin", "Standard input"
    FILE = "file", "File"
    ARGS = "args", "Argument"
    JSON_RPC = "json-rpc", "JSON-RPC"


class OutputPattern(TextChoices):
    STDOUT = "stdout", "Standard output"
    FILE = "file", "File"
    JSON_RPC = "json-rpc", "JSON-RPC"


class AccessType(TextChoices):
    READ_ONLY = "read-only", "Read-only"
    READ_WRITE = "read-write", "Read-write"


class ExecutionState(TextChoices):
    QUEUED = "queued", "Queued"
    IDLE = "idle", "Idle"
    STARTING = "starting", "Starting"
    RUNNING = "running", "Running"
    COMPLETED = "completed", "Completed"
    FAILED = "failed", "Failed"
    TIMEOUT = "timeout", "Timed out"
    CANCELLED = "cancelled", "Cancelled"
    CLEANUP = "cleanup", "Cleaning up"


class ExecutionStatus(TextChoices):
    """What became of a run. Once set it stays."""

    SUCCESS = "success", "Success"
    FAILURE = "failure", "Failure"
    TIMEOUT = "timeout", "Timed out"
    CANCELLED = "cancelled", "Cancelled"


_S = ExecutionState
#: `idle` at the end of a run means that its slot is free. Failed goes back to starting for a retry alone.
TRANSITIONS: dict[ExecutionState, frozenset[ExecutionState]] = {
    _S.QUEUED: frozenset({_S.STARTING, _S.CANCELLED, _S.FAILED}),
    _S.IDLE: frozenset({_S.STARTING}),
    _S.STARTING: frozenset({_S.RUNNING, _S.FAILED, _S.CANCELLED}),
    _S.RUNNING: frozenset({_S.COMPLETED, _S.FAILED, _S.TIMEOUT, _S.CANCELLED}),
    _S.COMPLETED: frozenset({_S.CLEANUP}),
    _S.FAILED: frozenset({_S.CLEANUP, _S.STARTING}),
    _S.TIMEOUT: frozenset({_S.CLEANUP}),
    _S.CANCELLED: frozenset({_S.CLEANUP}),
    _S.CLEANUP: frozenset({_S.IDLE}),
}
OUTCOMES: dict[ExecutionState, ExecutionStatus] = {
    _S.COMPLETED: ExecutionStatus.SUCCESS,
    _S.FAILED: ExecutionStatus.FAILURE,
    _S.TIMEOUT: ExecutionStatus.TIMEOUT,
    _S.CANCELLED: ExecutionStatus.CANCELLED,
}


class ErrorCategory(TextChoices):
    TRANSIENT = "Transient", "Transient"
    PERMANENT = "Permanent", "Permanent"
    AGENT_ERROR = "AgentError", "Agent error"
    SYSTEM_ERROR = "SystemError", "System error"


class Trigger(TextChoices):
    """What a run was started by."""

    MANUAL = "manual", "By hand"
    API = "api", "API"
    SCHEDULE = "schedule", "Schedule"
    SESSION = "session", "Session"
    TASK = "task", "Task"


class Stream(TextChoices):
    OUT = "out", "Output"
    ERR = "err", "Errors"


class SessionState(TextChoices):
    OPEN = "open", "Open"
    CLOSED = "closed", "Closed"


class Direction(TextChoices):
    IN = "in", "To the agent"
    OUT = "out", "From the agent"


class MisfirePolicy(TextChoices):
    """What becomes of due times that nobody was there for."""

    SKIP = "skip", "Skip them"
    ONCE = "once", "Run once for the latest"
    ALL = "all", "Run once for each"


class OverlapPolicy(TextChoices):
    """What becomes of a due time while the run before is not done."""

    SKIP = "skip", "Skip the due time"
    QUEUE = "queue", "Wait for the one before"
    ALLOW = "allow", "Run beside the one before"


class ScheduleState(TextChoices):
    """Derived, in seed 001's words."""

    CREATED = "created", "Not in use"
    ACTIVE = "active", "Active"
    EXECUTING = "executing", "Running"
    PAUSED = "paused", "Paused"


class FireState(TextChoices):
    FIRED = "fired", "Fired"
    MISSED = "missed", "Missed"
    SKIPPED = "skipped", "Skipped"
    QUEUED = "queued", "Late"
    FAILED = "failed", "Failed"
