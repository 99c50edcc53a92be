"""Agents that stay, and people who talk with them."""

from collections.abc import Callable

import pytest

from nhi import actors
from supervisor import sessions
from supervisor.access import Caller
from supervisor.models import Agent, Session
from tests.console.conftest import seeded, signed_in, visit
from tests.nhi import cast
from tests.supervisor.sessions.talks import ECHOES

__all__ = ["seeded", "signed_in", "visit"]


@pytest.fixture
def make_talker(make_agent: Callable[..., Agent]) -> Callable[..., Agent]:
    """An interactive agent; one that repeats each line unless it runs another script."""

    def make(script: str = ECHOES, *, name: str = "talker", **given: object) -> Agent:
        return make_agent(script, name=name, mode="interactive", **given)

    return make


@pytest.fixture
def operator(db: None) -> Caller:
    return Caller(actors.person(cast.user("oscar", "operator")))


@pytest.fixture
def open_session(operator: Caller) -> Callable[[Agent], Session]:
    return lambda agent: sessions.open(caller=operator, agent=agent)
