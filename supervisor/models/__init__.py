"""What runs, what ran, and by whom it is run."""

from supervisor.models.agents import Agent
from supervisor.models.executions import (
    Attempt,
    Execution,
    ExecutionResult,
    ExecutionTransition,
    OutputChunk,
    ResourceUsage,
)
from supervisor.models.runners import Runner
from supervisor.models.schedules import Schedule, ScheduleFire
from supervisor.models.sessions import Session, SessionMessage

__all__ = [
    "Agent", "Attempt", "Execution", "ExecutionResult", "ExecutionTransition", "OutputChunk", "ResourceUsage", "Runner",
    "Schedule", "ScheduleFire", "Session", "SessionMessage",
]  # fmt: skip
