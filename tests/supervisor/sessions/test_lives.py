"""A session lives where its process does: it outlives every web process, and not its worker."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nhi.actors import SYSTEM
from nhi.credentials import credentials
from supervisor import reaping
from supervisor.models import Agent, Session
from tests.nhi import cast
from tests.services.waiting import wait_for
from tests.supervisor.sessions import webs
from tests.supervisor.waiting import until
from tests.supervisor.workers import running, with_command

pytestmark = [
    pytest.mark.capability("SUP-08"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.xdist_group("house"),
]
#: Leaves a child in a session of its own, which its process group's end would not reach.
WITH_CHILD = """#!/usr/bin/env python3
import subprocess, sys
subprocess.Popen(["/bin/sleep", sys.argv[1]], start_new_session=True)
told = []
for line in sys.stdin:
    told.append(line.strip())
    print(len(told), told[0], flush=True)
"""


def test_it_goes_on_over_another_web_process_and_ends_cleanly_with_its_worker(
    make_talker: Callable[..., Agent], tmp_path: Path, broker: str
) -> None:
    mark = "988.125"
    agent = make_talker(WITH_CHILD, cli_args=[mark])
    token = credentials.issue(actor=SYSTEM, holder=cast.user("oscar", "operator")).token
    with running(tmp_path, broker) as [worker]:
        with webs.serving(tmp_path, broker, token) as web:
            opened = web.ask("POST", "", {"agent_id": str(agent.pk)})
            path = f"/{opened['id']}/messages"
            web.ask("POST", path, {"text": "first"})
            until(lambda: said_by_agent(web.ask("GET", path)) == ["1 first"], "the agent answered")
            web.kill()
        with webs.serving(tmp_path, broker, token) as web:
            web.ask("POST", path, {"text": "second"})
            until(lambda: said_by_agent(web.ask("GET", f"{path}?after=2")) == ["2 first"], "it still knew the first")
            assert with_command(mark)
            worker.kill()
            wait_for(lambda: not with_command(mark), 5, "ended with its worker")
            reaping.sweep()
            ended = web.ask("GET", f"/{opened['id']}")
            assert (ended["state"], ended["close_reason"]) == ("closed", reaping.LOST)
            assert len(web.ask("GET", path)["messages"]) == 4
    run = Session.objects.get(pk=opened["id"]).execution
    assert (run.status, run.error_category, run.slot) == ("failure", "SystemError", None)


def said_by_agent(answer: dict[str, Any]) -> list[str]:
    return [message["text"] for message in answer["messages"] if message["direction"] == "out"]
