"""What came of a run, told of every run that is done: also of one that never started or whose worker was lost."""

from collections.abc import Iterable
from dataclasses import dataclass

from supervisor.choices import Stream
from supervisor.models import Execution, ExecutionResult, OutputChunk

BOTH = (Stream.OUT, Stream.ERR)


@dataclass(frozen=True)
class Outcome:
    status: str
    output: str
    error: str
    execution_time: int
    output_bytes: int
    error_bytes: int
    output_truncated: bool = False
    error_truncated: bool = False


def of(run: Execution, *, error_message: str) -> Outcome | None:
    """None while it is not done. `error_message` is the run's, as its reader may see it."""
    if run.status is None:
        return None
    kept: ExecutionResult | None = getattr(run, "result", None)
    return _pieced_together(run, run.status, error_message) if kept is None else _told(kept, error_message)


def written(run: Execution, streams: Iterable[Stream]) -> str:
    """What it wrote by now, redacted."""
    chunks = OutputChunk.objects.filter(execution=run, stream__in=[*streams]).order_by("seq")
    return "".join(chunks.values_list("text", flat=True))


def _told(kept: ExecutionResult, error_message: str) -> Outcome:
    return Outcome(
        status=kept.status,
        output=kept.output,
        error=kept.error or error_message,
        execution_time=kept.execution_time,
        output_bytes=kept.output_bytes,
        error_bytes=kept.error_bytes,
        output_truncated=kept.output_truncated,
        error_truncated=kept.error_truncated,
    )


def _pieced_together(run: Execution, status: str, error_message: str) -> Outcome:
    """From what was on record when nobody was left to write more."""
    output, error = written(run, [Stream.OUT]), written(run, [Stream.ERR])
    lasted = run.end_time - run.start_time if run.end_time and run.start_time else None
    return Outcome(
        status=status,
        output=output,
        error=error or error_message,
        execution_time=round(lasted.total_seconds() * 1000) if lasted else 0,
        output_bytes=len(output.encode()),
        error_bytes=len(error.encode()),
    )
