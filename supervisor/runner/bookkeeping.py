"""What the runner reads and writes, each call in a thread of its own: nothing here waits for a process."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
from django.db import transaction
from django.db.models import Max
from django.db.models.functions import Now

from common.db import clock
from common.fastsql import compiled_queries
from common.fastsql.compiled_queries import PreparedQuery
from common.ids import uuid7
from common.process.boot_id import read_boot_id
from nhi import process_heartbeats
from nhi.credentials import run_tokens
from supervisor import lifecycle
from supervisor.choices import ErrorCategory, ExecutionState
from supervisor.models import Attempt, Execution, ExecutionResult, OutputChunk, ResourceUsage, Runner
from supervisor.nursery import MEGABYTE
from supervisor.runner import places
from supervisor.runner.capture import Capture
from supervisor.runner.words import Ended, Measured, Piece

S = ExecutionState
_FLAGS = PreparedQuery(
    lambda runner: Execution.objects.open().filter(runner_id=runner, cancel_requested_at__isnull=False).order_by()
    .values_list("pk", "cancelled_by_name", "cancel_reason", "cancel_grace"),
    runner=UUID,
)  # fmt: skip


@dataclass(frozen=True)
class Flag:
    """Somebody asks for the end of a run."""

    execution_id: UUID
    who: str
    reason: str
    #: Seconds between asking its processes to end and ending them.
    grace: float


def register(capacity: int) -> UUID:
    runner = Runner(
        id=uuid7(), host=process_heartbeats.HOST, pid=os.getpid(), process_start=psutil.Process().create_time(),
        boot=read_boot_id(), capacity=capacity, started_at=clock.database_now(),
    )  # fmt: skip
    runner.seen_at = runner.started_at
    _look_around(runner)
    runner.save(force_insert=True)
    return runner.pk


def heard(runner_id: UUID, used: int) -> bool:
    """Renew the lease of all runs of this runner; False when others have given them up."""
    facts = Runner(used=used)
    _look_around(facts)
    return bool(
        Runner.objects.filter(pk=runner_id).update(
            seen_at=Now(), used=used, memory_percent=facts.memory_percent, disk_free_mb=facts.disk_free_mb,
            load_per_cpu=facts.load_per_cpu,
        )
    )  # fmt: skip


def leave(runner_id: UUID) -> None:
    Runner.objects.filter(pk=runner_id).delete()


def used_places() -> set[str]:
    """The names of the directories that runs of this host still use."""
    here = Runner.objects.filter(host=process_heartbeats.HOST).values("pk")
    return {str(pk) for pk in Execution.objects.filter(runner_id__in=here).values_list("pk", flat=True)}


def flags(runner_id: UUID) -> list[Flag]:
    return [Flag(*row) for row in _FLAGS.fetch_all(runner=runner_id)]


def started(run: Execution, pid: int | None) -> None:
    what = f"Process {pid}." if pid else f"Model {run.agent.model}."
    lifecycle.move(run, S.RUNNING, what, process_id=pid)


def last_piece(run: Execution) -> int:
    """The number of the last piece of its output that is written."""
    return OutputChunk.objects.filter(execution=run).aggregate(last=Max("seq"))["last"] or 0


def keep_output(run: Execution, pieces: Sequence[Piece], after: int) -> None:
    compiled_queries.insert_rows(*_chunks(run, pieces, after))


def keep_usage(run: Execution, used: Measured, seconds: float, *, at: datetime | None = None) -> None:
    compiled_queries.upsert_row(
        ResourceUsage(execution=run, **_usage(used, seconds), updated_at=at or clock.database_now())
    )


def note_attempt(run: Execution, ended: Ended, wait: float, written: int) -> None:
    """A try failed for a passing reason: it is on record, and another follows."""
    at = clock.database_now()
    with transaction.atomic():
        Attempt.objects.create(
            execution=run, attempt=run.retry_count + 1, start_time=run.start_time, end_time=at,
            exit_code=ended.exit_code, error_category=ended.category or "", error_message=ended.message[:1000],
            last_piece=written,
        )  # fmt: skip
        reason = f"{ended.message} Another try follows in {wait:g} s."
        lifecycle.walk(run, [(S.FAILED, reason)], at=at, exit_code=ended.exit_code, **_error(ended))


def try_again(run: Execution) -> None:
    again = run.retry_count + 1
    facts = {"retry_count": again, "start_time": clock.database_now(), "process_id": None, "exit_code": None}
    lifecycle.move(run, S.STARTING, f"Try {again + 1}.", **facts, error_category="", error_message="")


def finish(run: Execution, ended: Ended, capture: Capture, pieces: Sequence[Piece], after: int,
           used: Measured | None, seconds: float) -> None:  # fmt: skip
    """The outcome, what was written and what was used, in one commit; from it on the run's token is refused."""
    if run.status is not None:
        return  # written before; the answer to that was lost
    at = clock.database_now()
    with transaction.atomic():
        steps: list[lifecycle.Step] = [] if run.state == ended.state else [(ended.state, ended.message)]
        facts = {"exit_code": ended.exit_code, "context": {**run.context, **ended.context}, **_error(ended)}
        lifecycle.walk(run, [*steps, (S.CLEANUP, "")], at=at, **facts)
        run_tokens.close(execution_ids=[run.pk], at=at)
        compiled_queries.insert_rows(*_chunks(run, pieces, after), _result(run, ended, capture, seconds))
        if used is not None:
            keep_usage(run, used, seconds, at=at)


def abandon(run: Execution, message: str) -> None:
    """An end without what it wrote, for a run whose end cannot be written as it was."""
    run.refresh_from_db()
    if run.status is None:
        at = clock.database_now()
        steps: list[lifecycle.Step] = [] if run.state == S.FAILED else [(S.FAILED, message)]
        with transaction.atomic():
            category = ErrorCategory.SYSTEM_ERROR
            lifecycle.walk(run, [*steps, (S.CLEANUP, "")], at=at, error_category=category, error_message=message)
            run_tokens.close(execution_ids=[run.pk], at=at)


def free(run: Execution) -> None:
    """Nothing of it is left: its place is another's."""
    if run.state == S.IDLE:
        return  # written before
    lifecycle.move(run, S.IDLE, "", slot=None, runner_id=None)


def _chunks(run: Execution, pieces: Sequence[Piece], after: int) -> list[OutputChunk]:
    return [
        OutputChunk(execution=run, seq=number, stream=piece.stream, at=piece.at, text=piece.text)
        for number, piece in enumerate(pieces, after + 1)
    ]


def _result(run: Execution, ended: Ended, capture: Capture, seconds: float) -> ExecutionResult:
    answered = ended.answer is not None
    output = capture.redacted(ended.answer or "") if answered else capture.text("out")
    return ExecutionResult(
        execution=run,
        status=run.status or "",
        output=output,
        error=capture.text("err"),
        execution_time=round(seconds * 1000),
        output_bytes=ended.answer_bytes if answered else capture.total("out"),
        error_bytes=capture.total("err"),
        output_truncated=ended.answer_cut if answered else capture.truncated("out"),
        error_truncated=capture.truncated("err"),
    )


def _usage(used: Measured, seconds: float) -> dict[str, Any]:
    return {
        "cpu_percent": round(100 * used.cpu / seconds, 1) if seconds > 0 else 0.0,
        "cpu_seconds": round(used.cpu, 3),
        "memory_mb": round(used.memory / MEGABYTE, 1),
        "peak_memory_mb": round(used.peak_memory / MEGABYTE, 1),
        "disk_read_mb": round(used.read / MEGABYTE, 1),
        "disk_write_mb": round(used.written / MEGABYTE, 1),
        "processes": used.processes,
        "samples": [list(sample) for sample in used.samples],
    }


def _error(ended: Ended) -> dict[str, str]:
    return {"error_category": ended.category or "", "error_message": ended.message[:1000] if ended.category else ""}


def _look_around(runner: Runner) -> None:
    """How this host is doing, for whoever decides on another run."""
    runner.memory_percent = psutil.virtual_memory().percent
    runner.disk_free_mb = psutil.disk_usage(str(places.root())).free / MEGABYTE
    runner.load_per_cpu = _load() / (os.cpu_count() or 1)


def _load() -> float:
    """What waits for a processor: over the last minute, and still now. A crowd that has gone is no reason to refuse."""
    lately = os.getloadavg()[0]
    try:
        return min(lately, float(Path("/proc/loadavg").read_text().split()[3].partition("/")[0]))
    except (OSError, ValueError, IndexError):
        return lately
