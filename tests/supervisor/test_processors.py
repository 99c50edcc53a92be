"""A worker that runs agents keeps to one processor; what it runs does not."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor.models import Agent, Execution
from tests.house.test_processor import ALLOWED, places
from tests.services.waiting import wait_for
from tests.supervisor.waiting import until_over
from tests.supervisor.workers import running

pytestmark = [
    pytest.mark.capability("OPS-01", "SUP-01"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(len(ALLOWED) < 2, reason="this machine has one processor for us"),
]
TELLS = "#!/usr/bin/env python3\nimport json, os\nprint(json.dumps(sorted(os.sched_getaffinity(0))))\n"


def test_a_worker_keeps_to_one_and_its_agents_to_none(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution], tmp_path: Path, broker: str
) -> None:
    agent = make_agent(TELLS)
    with running(tmp_path, broker) as [worker]:
        until_over(submit(agent))

        def is_kept() -> bool:
            found = places(worker.process.pid)
            return len(found) > 2 and all(len(place) == 1 and place == found[0] for place in found)

        wait_for(is_kept, 20, "on one")
        told = json.loads(until_over(submit(agent)).result.output)
    assert set(told) == ALLOWED == os.sched_getaffinity(0)
