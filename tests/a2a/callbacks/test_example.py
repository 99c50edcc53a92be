"""The example receiver believes what Gatehouse signs, and nothing else."""

import base64
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from a2a import delivering, pushing, signatures, webhooks
from a2a.models import Delivery, Task
from nhi import actors
from tests.a2a.callbacks.conftest import ended, now_of
from tests.a2a.conftest import Stage

pytestmark = pytest.mark.capability("A2A-06")
RECEIVER = Path(__file__).resolve().parents[3] / "examples/callbacks/receiver.py"


@dataclass(frozen=True)
class Running:
    url: str
    secret: str
    process: "subprocess.Popen[str]"

    def heard(self) -> list[list[str]]:
        """What it has said by its end, which this is: of which task, how that stands, and the rest."""
        self.process.terminate()
        return [line.split(" ", 2) for line in self.process.communicate(timeout=30)[0].splitlines()]


@pytest.fixture
def example(open_stage: Stage, settings: Any) -> Iterator[Running]:
    secret = webhooks.make(actor=actors.identity(open_stage.planner), url_prefix="").secret
    env, command = {**os.environ, "WEBHOOK_SECRET": secret}, [sys.executable, str(RECEIVER), "0"]
    # Else it would ignore Ctrl-C wherever whoever runs the tests does.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=env, text=True, **pipes) as running:
        signal.signal(signal.SIGINT, before)
        assert running.stdout is not None
        try:
            url = running.stdout.readline().split()[-1]
            settings.EGRESS_ALLOW = frozenset({url.removeprefix("http://").rstrip("/")})
            yield Running(url, secret, running)
        finally:
            running.terminate()


def test_it_takes_what_is_signed_and_refuses_the_rest(open_stage: Stage, example: Running) -> None:
    delivery = ended(open_stage, example.url)
    delivering.deliver_due()
    assert now_of(delivery).last_status == 204
    assert forged(example.url) == 401
    assert [one[:2] for one in example.heard()] == [[str(delivery.task_id), "completed"]]


@pytest.mark.parametrize(
    ("version", "told"),
    [
        ("1.0", ["TASK_STATE_WORKING", "artifact", "artifact", "TASK_STATE_COMPLETED"]),
        ("0.3", ["working", "working", "completed", "completed"]),
    ],
)
def test_it_reads_push_notifications_of_both_versions(
    version: str, told: list[str], open_stage: Stage, example: Running
) -> None:
    task_id = open_stage.sent()
    asked = {"url": example.url}
    task = Task.objects.get(pk=task_id)
    pushing.make(actor=actors.identity(open_stage.planner), task=task, asked=asked, wire_version=version)
    token = open_stage.claimed(task_id)
    made = {"artifactId": "draft", "parts": [{"text": "All agreed."}]}
    assert open_stage.tells(task_id, "artifacts", lease_token=token, artifact=made, last=True).status == 200
    open_stage.tells(task_id, "complete", lease_token=token, result={"summary": "Done."})
    for _ in told:
        delivering.deliver_due()
    assert set(Delivery.objects.values_list("state", "last_status")) == {("delivered", 204)}
    heard = example.heard()
    assert [one[0] for one in heard] == [task_id] * len(heard)
    assert [one[1] for one in heard] == told
    assert any("All agreed." in one[2] for one in heard)


def test_what_it_could_not_handle_it_handles_when_it_is_told_again(example: Running) -> None:
    done = {"task_id": "T-1", "state": "completed"}
    assert [signed(example, odd) for odd in ({"odd": True}, [], None, {"statusUpdate": 1})] == [500] * 4
    assert [signed(example, done), signed(example, done)] == [204, 204]
    assert example.heard() == [["T-1", "completed", "None"]]


@pytest.mark.parametrize(
    ("arguments", "secret", "code", "said"),
    [
        (["0"], None, 1, "Set WEBHOOK_SECRET to the secret that Gatehouse showed"),
        (["0"], "", 1, "Set WEBHOOK_SECRET to the secret that Gatehouse showed"),
        (["0"], "whsec_nö", 1, "Set WEBHOOK_SECRET to the secret that Gatehouse showed"),
        ([], "whsec_YQ==", 2, "the following arguments are required: port"),
        (["first"], "whsec_YQ==", 2, "invalid int value: 'first'"),
        (["70000"], "whsec_YQ==", 1, "Port 70000 cannot be used: "),
    ],
)
def test_what_it_cannot_begin_with_it_names(arguments: list[str], secret: str | None, code: int, said: str) -> None:
    env = {} if secret is None else {"WEBHOOK_SECRET": secret}
    done = subprocess.run(
        [sys.executable, "-I", str(RECEIVER), *arguments], env=env, capture_output=True, encoding="utf-8", check=False
    )
    assert (done.returncode, said in done.stderr, "Traceback" in done.stderr) == (code, True, False)


def test_a_port_that_is_taken_is_named_and_ctrl_c_ends_it(example: Running) -> None:
    port = example.url.rstrip("/").rpartition(":")[2]
    env, command = {"WEBHOOK_SECRET": example.secret}, [sys.executable, "-I", str(RECEIVER), port]
    done = subprocess.run(command, env=env, capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stderr.startswith(f"Port {port} cannot be used: ")) == (1, True)
    example.process.send_signal(signal.SIGINT)
    assert (example.process.wait(30), example.process.stderr and example.process.stderr.read()) == (130, "")


def signed(example: Running, told: Any) -> int:
    body, now = json.dumps(told).encode(), int(time.time())
    headers = signatures.headers([example.secret], webhook_id="1", timestamp=now, body=body)
    return answered(example.url, body, headers)


def forged(url: str) -> int:
    """The status that a callback signed with another secret gets."""
    headers = {
        "webhook-id": "1",
        "webhook-timestamp": "1",
        "webhook-signature": f"v1,{base64.b64encode(b'x').decode()}",
    }
    return answered(url, b"{}", headers)


def answered(url: str, body: bytes, headers: dict[str, str]) -> int:
    try:
        return int(urllib.request.urlopen(urllib.request.Request(url, body, headers)).status)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code
