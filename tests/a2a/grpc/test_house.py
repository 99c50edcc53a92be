"""gRPC as `up` runs it: a process of its own, called by the official SDK's client from another."""

import json
import signal
import time
from typing import Any

import psutil
import pytest

from tests.services.house import House
from tests.services.peers import NEW, PEERS, python, said_by

pytestmark = [pytest.mark.capability("A2A-03", "OPS-01"), pytest.mark.xdist_group("house")]

SENT = {
    "message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Translate this."}]},
    "configuration": {"returnImmediately": True},
}


def called(house: House, version: str, metadata: dict[str, str], *steps: tuple[str, Any]) -> list[Any]:
    target = f"127.0.0.1:{house.environ['GRPC_PORT']}"
    said = json.dumps([{"do": do, "with": params, "metadata": metadata} for do, params in steps])
    return list(json.loads(said_by(python(NEW), str(PEERS / "clients" / "a2a_call.py"), target, version, said=said)))


def token(house: House, who: str) -> str:
    issued = house.manage("issue_credential", who, "--replace", "--json")
    assert issued.returncode == 0, issued.stderr
    return str(json.loads(issued.stdout)["token"])


def test_the_sdks_client_sends_over_one_version_and_reads_over_the_other(running_house: House) -> None:
    planner = {"authorization": f"Bearer {token(running_house, 'agent/planner')}", "x-gatehouse-agent": "writer"}
    (sent,) = called(running_house, "1.0", planner, ("send_message", SENT))
    task_id = sent["task"]["id"]
    named = {"id": task_id}
    got, cancelled, again = called(
        running_house, "0.3", planner, ("get_task", named), ("cancel_task", named), ("cancel_task", named)
    )
    assert got["id"] == cancelled["id"] == task_id
    assert got["history"][0]["parts"] == SENT["message"]["parts"]  # type: ignore[index]  # it is a message
    assert cancelled["status"]["state"] == "TASK_STATE_CANCELED"
    assert again["error"] == "TaskNotCancelableError"
    listed, hidden = called(
        running_house, "1.0", planner, ("list_tasks", {"status": "TASK_STATE_CANCELED"}), ("get_task", {"id": "no"})
    )
    assert task_id in [task["id"] for task in listed["tasks"]]
    assert hidden["error"] == "TaskNotFoundError"


def test_told_to_stop_it_ends_in_good_order_and_another_takes_over(running_house: House) -> None:
    running = running_house.children("grpc")[0]
    running_house.wait_for(lambda: running_house.heard_of("grpc", running.pid), 20, "heard of")
    begun = time.monotonic()
    running.send_signal(signal.SIGTERM)
    psutil.wait_procs([running], timeout=10)
    assert time.monotonic() - begun < 5
    running_house.wait_for(lambda: "grpc ended with exit code 0" in running_house.output, 10, "told of its end")
    assert not running_house.heard_of("grpc", running.pid)
    running_house.wait_for(running_house.is_ready, 30, "ready again")
    assert running_house.readiness()["checks"]["grpc"] == {"ok": True, "message": "The gRPC server answers."}
