"""The commands of README.md, typed as they stand there. `make test` is the one that runs this."""

import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.services.house import PLAIN, ROOT, House
from tests.services.postgresql import free_port

pytestmark = [pytest.mark.capability("OPS-01"), pytest.mark.xdist_group("house")]

README = (ROOT / "README.md").read_text()
TOKEN = re.compile(r"^Token of agent/deploy-bot, new at each start: (\S+)$", re.MULTILINE)


def commands() -> list[str]:
    """Those in blocks of their own, without their comments, and those in the text."""
    blocks = "\n".join(re.findall(r"^```\n(.*?)^```", README, re.MULTILINE | re.DOTALL)).replace("\\\n", " ")
    lines = [line.partition("  # ")[0].strip() for line in blocks.splitlines()]
    typed = [line for line in lines if line.startswith(("make ", "curl "))]
    return [*typed, *re.findall(r"`(make [^`]+)`", README)]


@contextmanager
def typed(command: str, place: Path) -> Iterator[House]:
    """A `make up` in a terminal of its own, with data of its own on ports of its own."""
    ports = {"PORT": str(free_port()), "GRPC_PORT": str(free_port())}
    plain = {name: os.environ[name] for name in PLAIN if name in os.environ}
    house = House(place / "data", int(ports["PORT"]), {**plain, **ports, "GATEHOUSE_DATA": str(place / "data")})
    with (place / "output").open("w") as output:
        house.launcher = subprocess.Popen(
            shlex.split(command), cwd=ROOT, env=house.environ, stdout=output, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        )  # fmt: skip
    try:
        house.wait_until_ready()
        yield house
        # A terminal sends Ctrl-C to every process that is in front: to make and to what it called.
        os.killpg(house.launcher.pid, signal.SIGINT)
        house.launcher.wait(timeout=20)
    finally:
        if house.launcher.poll() is None:
            os.killpg(house.launcher.pid, signal.SIGKILL)
            house.launcher.wait()
        house.assert_nothing_left()


def test_each_command_is_known_here() -> None:
    names = {command.partition(" -H")[0] for command in commands()}
    assert names == {"make up", "make test", "make up ARGS=--no-demo", "curl"}


def test_make_up_and_the_call_work_as_they_stand(tmp_path: Path) -> None:
    call = next(command for command in commands() if command.startswith("curl "))
    with typed("make up", tmp_path) as house:
        token = TOKEN.search(house.output)
        assert token is not None, house.output
        words = shlex.split(call.replace("nhi_agt_…", token[1]).replace("http://127.0.0.1:8000", house.url))
        reply = subprocess.run([*words, "--silent"], capture_output=True, text=True, check=True, timeout=30).stdout
    assert "Water the plants" in json.dumps(json.loads(reply)["result"])
    assert "Stopped." in house.output


def test_make_up_without_the_demo_starts_empty(tmp_path: Path) -> None:
    with typed("make up ARGS=--no-demo", tmp_path) as house:
        assert "Make the first person" in house.output
        assert "mara" not in house.output
