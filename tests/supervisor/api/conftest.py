"""The house that the API's tests look into, with one agent that runs here and says what it was given."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from supervisor.models import Agent
from tests.api.conftest import Stage, set_stage
from tests.supervisor.api.door import Door

#: Says that it began, and waits until a file is there.
WAITS = '#!/bin/sh\necho begun\nuntil [ -e "$1/go" ]; do sleep 0.02; done\necho ended\n'


@pytest.fixture
def stage(db: None) -> Stage:
    return set_stage()


@pytest.fixture
def echo(stage: Stage, make_agent: Callable[..., Agent]) -> Agent:
    """Runs as the stage's bot."""
    return make_agent(identity=stage.bot)


@pytest.fixture
def waits(stage: Stage, make_agent: Callable[..., Agent], shared_directory: Path) -> Agent:
    """Runs as the stage's bot until `go` is in the shared directory."""
    return make_agent(WAITS, name="waits", identity=stage.bot, cli_args=[str(shared_directory)])


@pytest.fixture
def door() -> Iterator[Door]:
    opened = Door()
    yield opened
    opened.close()
