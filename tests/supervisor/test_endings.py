"""How runs end when they do not end well by themselves."""

import asyncio
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.utils.dateparse import parse_datetime

from common.errors import Conflict, NotAllowed
from nhi import actors
from nhi.identities import lifecycle
from nhi.models import AuditEvent
from supervisor import cancelling, categories, waking
from supervisor.models import Agent, Execution
from supervisor.nursery import Nursery
from supervisor.runner.service import Service
from tests.nhi import cast
from tests.supervisor.waiting import LONGEST, until, until_over, until_running
from tests.supervisor.workers import with_command

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("runner")]
#: Ignores being asked to end, and so does the child that it has put into a session and an environment of its own.
STUBBORN = """#!/usr/bin/env python3
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen(["/usr/bin/env", "-i", "/bin/sleep", sys.argv[1]], start_new_session=True)
print("began", flush=True)
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five seconds of grace are the product's; here half of one shows the same."""
    monkeypatch.setattr(cancelling, "GRACE", 0.5)
    monkeypatch.setattr(cancelling, "SHORT_GRACE", 0.5)
    monkeypatch.setattr("supervisor.runner.program.GRACE", 0.5)


@pytest.mark.capability("SUP-04")
def test_a_timeout_ends_the_whole_tree(make_agent: Callable[..., Agent], submit: Callable[..., Execution]) -> None:
    run = until_over(submit(make_agent(STUBBORN, cli_args=["986.125"], timeout=1)))
    assert (run.status, run.error_category, run.retry_count) == ("timeout", "AgentError", 0)
    assert run.error_message == "It did not end within 1 s."
    assert run.result.output == "began\n"
    assert not with_command("986.125")


@pytest.mark.capability("SUP-04")
def test_a_cancel_ends_the_whole_tree_and_is_asked_for_once(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution]
) -> None:
    run = until_running(submit(make_agent(STUBBORN, cli_args=["986.225"])))
    until(lambda: with_command("986.225"), "it began")
    olga = actors.person(cast.user("olga", "operator"))
    cancelling.cancel(actor=olga, execution=run, reason="Wrong input")
    with pytest.raises(Conflict, match="being stopped already, as olga asked"):
        cancelling.cancel(actor=olga, execution=run, reason="Wrong input")
    run = until_over(run)
    assert (run.status, run.error_category) == ("cancelled", "")
    assert run.transitions.get(to_state="cancelled").reason == "olga: Wrong input"
    # Both moments of its end are kept, for its page.
    asked, term, kill = run.cancel_requested_at, *(parse_datetime(run.context[name]) for name in ("term_at", "kill_at"))
    assert asked <= term < kill <= run.end_time
    assert not with_command("986.225")
    with pytest.raises(Conflict, match="is cancelled already"):
        cancelling.cancel(actor=olga, execution=run, reason="Again")


@pytest.mark.capability("SUP-04")
def test_who_may_not_stop_a_run_does_not(make_agent: Callable[..., Agent], submit: Callable[..., Execution]) -> None:
    run = until_running(submit(make_agent("#!/bin/sh\nexec sleep 30\n")))
    for stranger in (cast.user("stan"), cast.user("ada", "auditor"), cast.user("tom", "approver")):
        with pytest.raises(NotAllowed):
            cancelling.cancel(actor=actors.person(stranger), execution=run, reason="No")


@pytest.mark.capability("NHI-03", "SUP-04")
def test_the_kill_switch_ends_what_runs_and_what_waits(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution]
) -> None:
    agent = make_agent(STUBBORN, cli_args=["986.325"], access_type="read-write")
    running, waiting = until_running(submit(agent)), submit(agent)
    until(lambda: with_command("986.325"), "it began")
    asked = time.monotonic()
    stopped = lifecycle.suspend(actor=cast.admin(), identity=agent.identity, reason="Leaked")
    assert (stopped.stopped["executions"], stopped.unstarted["executions"]) == (2, 1)
    waiting.refresh_from_db()
    assert (waiting.state, waiting.status) == ("idle", "cancelled")
    ended = until_over(running)
    assert ended.status == "cancelled"
    for run in (ended, waiting):
        said = f"{agent.identity.name} was suspended: Leaked"
        assert (run.cancelled_by_name, run.cancel_reason) == ("mara", said)
        assert (
            AuditEvent.objects.get(event="run.cancelled", subject_id=run.pk).reason
            == f"{agent.identity.name} was suspended by mara: Leaked"
        )
    assert cancelling.stop(stopped.identity).count == 0
    assert AuditEvent.objects.filter(event="run.cancelled").count() == 2
    assert not with_command("986.325")
    assert time.monotonic() - asked < 5
    with pytest.raises(NotAllowed, match="suspended"):
        submit(agent)


@pytest.mark.capability("NHI-03", "SUP-04")
def test_the_kill_switch_wakes_the_worker_for_what_was_being_stopped_already(
    make_agent: Callable[..., Agent],
    submit: Callable[..., Execution],
    runner: Service,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cancelling, "GRACE", 60.0)
    agent = make_agent(STUBBORN, cli_args=["987.125"])
    run = until_running(submit(agent))
    until(lambda: with_command("987.125"), "it began")
    # From here on it looks when it is woken, and not by itself.
    monkeypatch.setattr("supervisor.runner.service.LOOK_EVERY", 60.0)
    monkeypatch.setattr(waking, "say", runner.poke)
    cancelling.cancel(actor=actors.person(cast.user("olga", "operator")), execution=run, reason="Wrong input")
    until(lambda: runner._runs[run.pk][0]._flag, "it was asked to end")
    lifecycle.suspend(actor=cast.admin(), identity=agent.identity, reason="Leaked")
    ended = until_over(run)
    assert (ended.status, ended.cancelled_by_name, ended.cancel_grace) == ("cancelled", "olga", 0.5)
    assert not with_command("987.125")


@pytest.mark.capability("NHI-03", "SUP-04")
def test_the_kill_switchs_grace_counts_where_both_came_before_there_was_a_process(
    make_agent: Callable[..., Agent],
    submit: Callable[..., Execution],
    runner: Service,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cancelling, "GRACE", 60.0)
    spawned, both_came, spawn = threading.Event(), threading.Event(), Nursery.spawn

    async def late(*args: Any, **kwargs: Any) -> Any:
        child = await spawn(*args, **kwargs)
        spawned.set()
        await asyncio.to_thread(both_came.wait, LONGEST)
        return child

    monkeypatch.setattr(Nursery, "spawn", late)
    agent = make_agent(STUBBORN, cli_args=["987.225"])
    run = submit(agent)
    until(spawned.is_set, "its process was made")
    until(lambda: with_command("987.225"), "it began")
    held = runner._runs[run.pk][0]
    cancelling.cancel(actor=actors.person(cast.user("olga", "operator")), execution=run, reason="Wrong input")
    until(lambda: held._flag, "it was asked to end")
    lifecycle.suspend(actor=cast.admin(), identity=agent.identity, reason="Leaked")
    until(lambda: held._flag and held._flag.grace == 0.5, "it was asked again")
    both_came.set()
    assert until_over(run).status == "cancelled"
    assert not with_command("987.225")


@pytest.mark.capability("SUP-04")
def test_what_a_program_leaves_behind_ends_with_it(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution]
) -> None:
    leaves = "#!/bin/sh\necho done\nsetsid env -i sleep 986.425 &\nsleep 986.425 &\nexit 0\n"
    run = until_over(submit(make_agent(leaves)))
    assert (run.status, run.result.output) == ("success", "done\n")
    assert run.result.execution_time < 3000
    assert not with_command("986.425")


@pytest.mark.capability("SUP-04", "SUP-02")
def test_a_crowd_of_processes_is_ended(make_agent: Callable[..., Agent], submit: Callable[..., Execution]) -> None:
    crowd = "#!/bin/sh\nfor n in 1 2 3 4 5 6 7 8; do sleep 986.525 & done\nwait\n"
    run = until_over(submit(make_agent(crowd, max_processes=4)))
    assert (run.status, run.error_category) == ("failure", "AgentError")
    assert run.error_message == "It had more than 4 processes and was ended."
    assert not with_command("986.525")


FAILURES: list[tuple[str, str]] = [
    ("exit 75", "Transient"),
    ("echo 'curl: (7) Connection refused' >&2; exit 1", "Transient"),
    ("echo 'Temporary failure in name resolution' >&2; exit 3", "Transient"),
    ("echo 'connection refused'; exit 1", "AgentError"),
    ("exit 1", "AgentError"),
    ("exit 126", "Permanent"),
    ("exit 127", "Permanent"),
    ("kill -9 $$", "AgentError"),
]


@pytest.mark.capability("SUP-06")
@pytest.mark.parametrize(("script", "category"), FAILURES)
def test_a_failure_has_its_category(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution], script: str, category: str
) -> None:
    run = until_over(submit(make_agent(f"#!/bin/sh\n{script}\n", max_retries=0)))
    assert (run.status, run.error_category) == ("failure", category)


@pytest.mark.capability("SUP-06")
def test_only_what_may_pass_is_tried_again_and_each_try_is_on_record(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supervisor.runner.run.WAITS", (0.01, 0.02, 0.04))
    run = until_over(submit(make_agent("#!/bin/sh\necho said; exit 75\n", max_retries=2)))
    assert (run.status, run.error_category, run.retry_count) == ("failure", "Transient", 2)
    assert list(run.attempts.values_list("attempt", "error_category", "exit_code")) == [
        (1, "Transient", 75),
        (2, "Transient", 75),
    ]
    moves = list(run.transitions.values_list("to_state", flat=True))
    assert moves == ["queued", *["starting", "running", "failed"] * 3, "cleanup", "idle"]
    assert run.result.output == "said\n"


@pytest.mark.capability("SUP-06")
def test_the_waits_are_those_of_the_contract_and_what_writes_is_not_tried_twice(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution]
) -> None:
    from supervisor.runner import run as running

    assert running.WAITS == (1.0, 2.0, 4.0)
    assert make_agent(name="reads").max_retries == 3
    writer = make_agent("#!/bin/sh\nexit 75\n", name="writes", access_type="read-write")
    run = until_over(submit(writer))
    assert (run.status, run.retry_count) == ("failure", 0)


@pytest.mark.capability("SUP-02", "SUP-06")
@pytest.mark.parametrize("what", ["gone", "taken off the list", "not a program"])
def test_a_program_that_cannot_be_started_says_why(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution], settings: Any, what: str
) -> None:
    from pathlib import Path

    agent = make_agent()
    path = Path(agent.executable_path)
    match what:
        case "gone":
            path.unlink()
        case "taken off the list":
            settings.EXECUTABLE_ALLOWLIST.write_text("")
        case "not a program":
            path.write_text("no magic number")
    run = until_over(submit(agent))
    assert (run.status, run.error_category, run.process_id) == ("failure", "Permanent", None)
    assert str(path) in run.error_message
    assert list(run.transitions.values_list("to_state", flat=True)) == [
        "queued", "starting", "failed", "cleanup", "idle",
    ]  # fmt: skip


@pytest.mark.capability("SUP-07")
def test_what_a_run_used_is_what_the_system_counted(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution]
) -> None:
    burns = """#!/usr/bin/env python3
import time
held = bytearray(200_000_000)
for place in range(0, len(held), 4096):
    held[place] = 1
while time.process_time() < 2:
    pass
"""
    used = until_over(submit(make_agent(burns))).usage
    assert 1.8 < used.cpu_seconds < 2.6
    assert 190 < used.peak_memory_mb < 240
    assert used.cpu_percent > 20
    assert used.samples
    assert used.processes == 1


@pytest.mark.capability("SUP-06")
def test_a_signal_is_named(make_agent: Callable[..., Agent], submit: Callable[..., Execution]) -> None:
    run = until_over(submit(make_agent("#!/bin/sh\nkill -SEGV $$\n")))
    assert (run.exit_code, run.error_message) == (None, f"It was ended by signal {signal.SIGSEGV.value}.")
    assert categories.of_exit(None, "connection refused") == "AgentError"
