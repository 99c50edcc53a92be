"""A whole chain, from any task, run or call in it."""

from uuid import UUID

from a2a import tracing
from a2a.api.base import TasksView
from a2a.api.shapes.tracing import TraceShape
from a2a.api.tasks import OfTask
from a2a.tracing import Trace
from common.api.operations import operation
from nhi.models import InvocationLog
from supervisor.models import Execution


class OfTasks(OfTask):
    @operation(gives=TraceShape)
    def get(self) -> Trace:
        """Read the trace of a task

        All tasks of its tree, the runs that worked on them and the calls of tools that were made, as far as you see
        each of them. At most 200 tasks, 200 runs and 500 calls."""
        return tracing.of_task(self.actor, self.task)


class OfRuns(TasksView):
    run: Execution

    def find(self, **path: UUID) -> None:
        self.run = self.visible(Execution.objects.all(), path["execution_id"])

    @operation(gives=TraceShape)
    def get(self) -> Trace:
        """Read the trace of a run

        That of the task that it is for, or that the run which asked for it is for; else the runs that it is one of."""
        return tracing.of_run(self.actor, self.run)


class OfCalls(TasksView):
    call: InvocationLog

    def find(self, **path: UUID) -> None:
        self.call = self.visible(InvocationLog.objects.all(), path["call_id"])

    @operation(gives=TraceShape)
    def get(self) -> Trace:
        """Read the trace of a call

        That of the run or the task that it was made in; else the call alone."""
        return tracing.of_call(self.actor, self.call)
