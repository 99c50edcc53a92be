"""The example receiver believes what Gatehouse signs, and nothing else."""

import base64
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from a2a import delivering, webhooks
from nhi import actors
from tests.a2a.callbacks.conftest import ended, now_of
from tests.a2a.conftest import Stage

pytestmark = pytest.mark.capability("A2A-06")
RECEIVER = Path(__file__).resolve().parents[3] / "examples/callbacks/receiver.py"


def test_it_takes_what_is_signed_and_refuses_the_rest(open_stage: Stage, settings: object) -> None:
    secret = webhooks.make(actor=actors.identity(open_stage.planner), url_prefix="").secret
    env = {**os.environ, "WEBHOOK_SECRET": secret}
    with subprocess.Popen([sys.executable, str(RECEIVER), "0"], env=env, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            url = running.stdout.readline().split()[-1]
            settings.EGRESS_ALLOW = frozenset({url.removeprefix("http://").rstrip("/")})  # type: ignore[attr-defined]  # pytest-django's
            delivery = ended(open_stage, url)
            delivering.deliver_due()
            assert now_of(delivery).last_status == 204
            assert running.stdout.readline().split()[:2] == [str(delivery.task_id), "completed"]
            assert forged(url) == 401
        finally:
            running.terminate()


def forged(url: str) -> int:
    """The status that a callback signed with another secret gets."""
    headers = {
        "webhook-id": "1",
        "webhook-timestamp": "1",
        "webhook-signature": f"v1,{base64.b64encode(b'x').decode()}",
    }
    try:
        return int(urllib.request.urlopen(urllib.request.Request(url, b"{}", headers)).status)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code
