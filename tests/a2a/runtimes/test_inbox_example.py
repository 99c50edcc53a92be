"""The example worker over a real web process: it takes what waits, says how it goes, and brings it back."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

from a2a import cancelling, sending
from a2a.models import Task
from a2a.sending import Wish
from nhi import actors
from nhi.actors import SYSTEM
from nhi.credentials import credentials
from supervisor.access import Caller
from tests.a2a import rows
from tests.a2a.conftest import Stage
from tests.a2a.runtimes.conftest import states
from tests.supervisor.sessions import webs
from tests.supervisor.waiting import until

pytestmark = [
    pytest.mark.capability("A2A-07"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.xdist_group("house"),
    # A web process is told which programs may run.
    pytest.mark.usefixtures("program"),
]
EXAMPLE = settings.BASE_DIR / "examples" / "agents" / "inbox_worker.py"


def worker(**environ: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-I", str(EXAMPLE), "--once"]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)


def test_it_does_what_waits_and_ends(open_stage: Stage, tmp_path: Path, broker: str) -> None:
    good = rows.sent(open_stage.writer, given={"input": "Water the plants\nand the trees"})
    odd = rows.sent(open_stage.writer, given={"document": "minutes.md"})
    gone = rows.sent(open_stage.writer, given={"input": "x"})
    cancelling.cancel(actor=SYSTEM, task=gone)
    token = credentials.issue(actor=SYSTEM, holder=open_stage.writer).token
    with webs.serving(tmp_path, broker, token) as web:
        given = {"GATEHOUSE_URL": f"http://127.0.0.1:{web.port}", "GATEHOUSE_TOKEN": token}
        done = worker(**given)
        assert (done.returncode, done.stdout) == (0, f"{good.pk}: 6 words\n"), done.stderr
        assert worker(**{**given, "GATEHOUSE_TOKEN": "nhi_agt_wrong"}).returncode == 1
    for task in (good, odd, gone):
        task.refresh_from_db()
    assert (good.state, good.result) == ("completed", {"words": 6, "different": 5})
    assert states(good) == ["working", "working", "completed"]
    assert (odd.state, odd.error_code, gone.state) == ("failed", "no_text", "canceled")
    assert not Task.objects.open().exists()


def test_ctrl_c_ends_it_without_a_traceback(open_stage: Stage, tmp_path: Path, broker: str) -> None:
    task = rows.sent(open_stage.writer, given={"input": "Water the plants"})
    token = credentials.issue(actor=SYSTEM, holder=open_stage.writer).token
    with webs.serving(tmp_path, broker, token) as web:
        given = {"GATEHOUSE_URL": f"http://127.0.0.1:{web.port}", "GATEHOUSE_TOKEN": token}
        # Else the worker would ignore it wherever whoever runs the tests does.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        command = [sys.executable, "-I", str(EXAMPLE)]
        with subprocess.Popen(
            command, env=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as running:  # fmt: skip
            signal.signal(signal.SIGINT, before)
            assert running.stdout is not None
            assert running.stdout.readline() == f"{task.pk}: 3 words\n"
            running.send_signal(signal.SIGINT)
            said = running.communicate(timeout=30)
    assert (running.returncode, said) == (130, ("", ""))


def test_it_needs_a_house() -> None:
    done = worker()
    assert (done.returncode, done.stderr.startswith("Set GATEHOUSE_URL")) == (1, True)


@pytest.mark.capability("A2A-03")
def test_the_conformance_kits_agent_does_as_the_message_says(open_stage: Stage, tmp_path: Path, broker: str) -> None:
    wanted = {
        "tck-complete-task-1": "completed",
        "tck-reject-task-1": "rejected",
        "tck-input-required-1": "input_required",
    }
    sent = {name: _sent(open_stage, name) for name in wanted}
    made = _sent(open_stage, "tck-artifact-text-1")
    token = credentials.issue(actor=SYSTEM, holder=open_stage.writer).token
    with webs.serving(tmp_path, broker, token) as web:
        given = {"GATEHOUSE_URL": f"http://127.0.0.1:{web.port}", "GATEHOUSE_TOKEN": token}
        agent = subprocess.Popen([sys.executable, str(EXAMPLE.with_name("tck.py"))], env=given)
        try:
            for name, state in wanted.items():
                found = Task.objects.filter(pk=sent[name].pk, state=state)
                until(found.exists, f"{name} was {state}")
            until(Task.objects.filter(pk=made.pk, state="completed").exists, "something was made")
        finally:
            agent.terminate()
            agent.wait(10)
    assert made.artifacts.get().body["parts"] == [{"text": "Generated text content"}]


def _sent(stage: Stage, message_id: str) -> Task:
    message = {"messageId": message_id, "role": "ROLE_USER", "parts": [{"text": "Please."}]}
    caller = Caller(actors.identity(stage.planner))
    return sending.send(caller=caller, target=stage.writer, wish=Wish(message))
