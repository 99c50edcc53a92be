"""The example worker over a real web process: it takes what waits, says how it goes, and brings it back."""

import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

from a2a import cancelling
from a2a.models import Task
from nhi import credentials
from nhi.actors import SYSTEM
from tests.a2a import rows
from tests.a2a.conftest import Stage
from tests.a2a.runtimes.conftest import states
from tests.supervisor.sessions import webs

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


def test_it_needs_a_house() -> None:
    done = worker()
    assert (done.returncode, done.stderr.startswith("Set GATEHOUSE_URL")) == (1, True)
