"""Agents as small scripts that may run here, the runs of them, and a runner in this process."""

import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nhi import actors
from nhi.models import Identity, User
from supervisor import agents, submitting
from supervisor.access import Caller
from supervisor.models import Agent, Execution
from supervisor.runner import places, service
from supervisor.submitting import Wish
from tests.nhi import cast

#: What an agent does whose test does not care: it says what it was given.
ECHO = "#!/bin/sh\ncat\n"


@pytest.fixture(scope="session")
def open_directory() -> Iterator[Path]:
    """pytest's own are closed to the account that runs have when root runs the tests."""
    place = Path(tempfile.mkdtemp(prefix="gatehouse-agents-"))
    place.chmod(0o755)
    yield place
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def shared_directory(open_directory: Path, settings: Any) -> Path:
    """One that runs may work in, if they ask for it; it outlives them."""
    place = Path(tempfile.mkdtemp(prefix="shared-", dir=open_directory))
    place.chmod(0o777)
    settings.WORKDIR_ALLOWLIST = (place,)
    return place


@pytest.fixture
def program(open_directory: Path, settings: Any) -> Callable[[str], str]:
    """Writes a script that may run here; the path of it."""
    place = Path(tempfile.mkdtemp(prefix="programs-", dir=open_directory))
    place.chmod(0o755)
    settings.EXECUTABLE_ALLOWLIST = place / "allowed"
    settings.EXECUTABLE_ALLOWLIST.touch(0o600)

    def write(script: str) -> str:
        path = place / f"agent-{len([*place.iterdir()])}"
        path.write_text(script)
        path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
        with settings.EXECUTABLE_ALLOWLIST.open("a") as allowed:
            allowed.write(f"{path}\n")
        return str(path)

    return write


@pytest.fixture
def example(program: Callable[[str], str], settings: Any) -> Callable[[str], str]:
    """Lists a program of `examples/agents/`; the path of it. Runs are given a copy, wherever the checkout lies."""

    def allow(name: str) -> str:
        path = settings.BASE_DIR / "examples" / "agents" / name
        with settings.EXECUTABLE_ALLOWLIST.open("a") as allowed:
            allowed.write(f"{path}\n")
        return str(path)

    return allow


@pytest.fixture
def owner(db: None) -> User:
    """Of the identities that `make_agent` makes."""
    return cast.user("olga", "operator")


@pytest.fixture
def make_agent(db: None, program: Callable[[str], str]) -> Callable[..., Agent]:
    """An agent that runs this script, of an identity of the same name unless another is given."""

    def make(
        script: str = ECHO, *, name: str = "echo", identity: Identity | None = None, envs: dict[str, str] | None = None,
        **given: Any,
    ) -> Agent:  # fmt: skip
        whose = identity or cast.agent(name)
        described = {"name": name, "executable_path": program(script), **given}
        return agents.create(actor=cast.admin(), identity=whose, given=described, envs=envs)

    return make


@pytest.fixture
def submit(db: None) -> Callable[..., Execution]:
    """Asks for a run as an operator does."""

    def ask(agent: Agent, said: str = "", **wish: Any) -> Execution:
        caller = Caller(actors.person(cast.user("oscar", "operator")))
        return submitting.submit(caller=caller, agent=agent, wish=Wish(input=said, **wish)).execution

    return ask


@pytest.fixture
def runner(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[service.Service]:
    """Starts runs in this process while the test lasts; nobody need wake it."""
    monkeypatch.setattr(service, "LOOK_EVERY", 0.05)
    running = service.Service(8)
    running.start()
    yield running
    running.stop()
    assert not running._thread.is_alive()
    assert places.found() == []
