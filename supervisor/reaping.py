"""What the clock finds: runners that are gone with their runs, and runs that wait for nothing."""

import os
import signal
from contextlib import suppress
from datetime import timedelta
from typing import Any

import psutil
from django.db import connection, transaction
from django.db.models.functions import Now

from common.db import clock
from common.errors import InvalidTransition
from nhi import process_heartbeats
from nhi.actors import SYSTEM
from nhi.audit import events
from nhi.credentials import run_tokens
from nhi.identities import lifecycle as identities
from nhi.models import Identity
from supervisor import lifecycle
from supervisor.choices import ErrorCategory, ExecutionState
from supervisor.models import Execution, Runner

#: Three heartbeats and a half. A runner that cannot write its own ends its processes before that.
SILENT_FOR = timedelta(seconds=30)
MOST_AT_ONCE = 200
LOST = "The worker that ran this is gone, and its processes with it."
S = ExecutionState


def sweep() -> None:
    fence()
    reap_dead_of_this_host()
    reap()
    expire()
    give_up_unusable()


def fence() -> None:
    """End the processes of this host's runners that hang: what they run must end before it counts as lost."""
    for runner in Runner.objects.filter(host=process_heartbeats.HOST, seen_at__lt=Now() - SILENT_FOR):
        if is_alive(runner):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(runner.pid, signal.SIGKILL)


def reap(*, of: Runner | None = None) -> int:
    """End the runs of runners that were not heard of; how many those were."""
    gone = Runner.objects.filter(pk=of.pk) if of else Runner.objects.filter(seen_at__lt=Now() - SILENT_FOR)
    with transaction.atomic():
        skip = connection.features.has_select_for_update_skip_locked
        lost = list(gone.select_for_update(skip_locked=skip))
        ids = [runner.pk for runner in lost]
        runs = list(Execution.objects.select_for_update(of=("self",)).filter(runner_id__in=ids, slot__isnull=False))
        at = clock.database_now()
        lifecycle.walk_each([(run, _steps(run), _facts(run)) for run in runs], at=at)
        run_tokens.close(execution_ids=[run.pk for run in runs], at=at)
        Runner.objects.filter(pk__in=ids).delete()
    return len(runs)


def reap_dead_of_this_host() -> int:
    """Whoever can see that a process is gone need not wait for its silence."""
    dead = [runner for runner in Runner.objects.filter(host=process_heartbeats.HOST) if not is_alive(runner)]
    return sum(reap(of=runner) for runner in dead)


def expire() -> None:
    """End the runs that waited longer than their agents let them."""
    late = Execution.objects.queued().select_related("agent").filter(wait_until__lt=Now())
    for run in late[:MOST_AT_ONCE]:
        said = f"It waited for {run.agent.queue_wait} s, which is as long as a run of this agent may."
        _end(run, S.FAILED, said, error_category=ErrorCategory.TRANSIENT, error_message=said)


def give_up_unusable() -> None:
    """End what waits for an identity that may not act; a stop that missed it was in the middle of its submission."""
    usable = Identity.objects.usable().values("pk")
    for run in Execution.objects.queued().exclude(identity_id__in=usable)[:MOST_AT_ONCE]:
        why = identities.why_inactive(Identity.objects.get(pk=run.identity_id))
        with transaction.atomic():
            if _end(run, S.CANCELLED, why):
                events.write("run.cancelled", actor=SYSTEM, subject=run, reason=why)


def is_alive(runner: Runner) -> bool:
    """Whether the process still is the one that wrote the row: numbers come round again."""
    try:
        return abs(psutil.Process(runner.pid).create_time() - runner.process_start) < 1
    except psutil.Error:
        return False


def _end(run: Execution, outcome: ExecutionState, said: str, **facts: Any) -> bool:
    """Whether this ended it."""
    with suppress(InvalidTransition):  # a worker was quicker
        lifecycle.walk(run, lifecycle.to_the_end(outcome, said), **facts)
        return True
    return False


def _steps(run: Execution) -> list[lifecycle.Step]:
    """From wherever it was, to its end by legal moves."""
    end: list[lifecycle.Step] = [(S.CLEANUP, ""), (S.IDLE, "")]
    if run.state in (S.STARTING, S.RUNNING):
        return [(S.FAILED, LOST), *end]
    return end[1:] if run.state == S.CLEANUP else end


def _facts(run: Execution) -> dict[str, Any]:
    freed: dict[str, Any] = {"slot": None, "runner_id": None}
    if run.status is not None:
        return freed
    return {**freed, "error_category": ErrorCategory.SYSTEM_ERROR, "error_message": LOST}
