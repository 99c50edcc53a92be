"""What a run may use: as its agent says, as its house says, and as the kernel holds every process to it."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from supervisor import account, agents
from supervisor.models import Agent, Execution
from tests.nhi import cast
from tests.supervisor.waiting import until_over
from tests.supervisor.workers import with_command

pytestmark = [
    pytest.mark.capability("SUP-02", "SUP-04"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("runner"),
]
TAKES = """#!/usr/bin/env python3
import os, sys, time
held = bytearray(b"x") * (int(sys.argv[1]) << 20)
print("taken", flush=True)
time.sleep(float(sys.argv[2]))
"""
#: Six that share nothing, of which the first one's end is the run's.
SPREADS = TAKES.replace("held", "any(os.fork() == 0 for _ in range(5))\nheld", 1)


@pytest.mark.parametrize(
    ("script", "each", "marker"), [(TAKES, 300, "987.125"), (SPREADS, 50, "987.225")], ids=["alone", "spread"]
)
def test_a_run_says_how_much_memory_it_used_and_how_much_it_may(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution], script: str, each: int, marker: str
) -> None:
    run = until_over(submit(make_agent(script, cli_args=[str(each), marker], max_memory_mb=100)))
    assert (run.status, run.error_category, run.retry_count) == ("failure", "AgentError", 0)
    said, _, rest = run.error_message.partition(" MB of memory, ")
    assert int(said.removeprefix("It used ")) in range(101, 400)
    assert rest == "more than its limit of 100 MB, and was ended."
    assert run.usage.peak_memory_mb > 100
    assert not with_command(marker)


def test_a_run_says_how_much_time_it_used_and_how_much_it_may(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution]
) -> None:
    run = until_over(submit(make_agent("#!/bin/sh\nwhile :; do :; done\n", max_cpu_seconds=1)))
    assert (run.status, run.error_category) == ("failure", "AgentError")
    said, _, rest = run.error_message.partition(" s of CPU time, ")
    assert 1 < float(said.removeprefix("It used ")) < 4
    assert rest == "more than its limit of 1 s, and was ended."


def test_a_run_below_its_limits_completes(make_agent: Callable[..., Agent], submit: Callable[..., Execution]) -> None:
    agent = make_agent(TAKES, cli_args=["30", "0.2"], max_memory_mb=100, max_cpu_seconds=20)
    run = until_over(submit(agent))
    assert (run.status, run.error_message, run.result.output) == ("success", "", "taken\n")


def test_a_limit_that_is_changed_is_that_of_the_next_run(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution]
) -> None:
    agent = make_agent(TAKES, cli_args=["150", "0.4"], max_memory_mb=100)
    assert until_over(submit(agent)).status == "failure"
    agents.change(actor=cast.admin(), agent=agent, max_memory_mb=None)
    agent.refresh_from_db()
    assert until_over(submit(agent)).status == "success"


def test_a_file_that_grows_past_the_limit_of_the_house_ends_the_run(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution], settings: Any
) -> None:
    settings.RUN_MAX_FILE_MB = 1
    writes = "#!/bin/sh\nhead -c {} /dev/zero > file && wc -c < file\n"
    fits = make_agent(writes.format(1 << 20), name="fits")
    run = until_over(submit(fits))
    assert (run.status, run.result.output) == ("success", f"{1 << 20}\n")
    # By `exec`, or the shell would end with what it says of such an end.
    grows = make_agent(f"#!/bin/sh\nexec head -c {(1 << 20) + 1} /dev/zero > file\n", name="grows")
    run = until_over(submit(grows))
    assert (run.status, run.error_category) == ("failure", "AgentError")
    number = signal.SIGXFSZ.value
    assert run.error_message == f"It was ended by signal {number}: a file that it wrote grew past 1 MB."


#: As the kernel calls them, with what each process of a run may have of it.
HOUSE = {"Max core file size": 0, "Max open files": 4096, "Max file size": 4096 << 20}


def test_the_kernel_holds_each_process_to_the_limits_of_the_house(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution]
) -> None:
    agent = make_agent("#!/bin/sh\nexec cat /proc/self/limits\n", max_cpu_seconds=7)
    lines = until_over(submit(agent)).result.output.splitlines()
    found = {line[:25].strip(): line[25:].split()[:2] for line in lines}
    for name, most in {**HOUSE, "Max cpu time": 7 + account.BEHIND}.items():
        assert found[name] == [str(most)] * 2, name
    assert int(found["Max processes"][1]) <= 4096
    assert found["Max address space"] == ["unlimited"] * 2


def test_a_run_that_crashes_leaves_no_image_of_its_memory(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution], shared_directory: Path
) -> None:
    run = until_over(submit(make_agent("#!/bin/sh\nkill -SEGV $$\n", working_directory=str(shared_directory))))
    assert run.error_message == f"It was ended by signal {signal.SIGSEGV.value}."
    assert [*shared_directory.iterdir()] == []
