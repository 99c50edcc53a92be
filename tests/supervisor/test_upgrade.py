"""Agents of a house that is upgraded go on as they did."""

from collections.abc import Callable

import pytest

from supervisor.models import Agent
from tests.services.upgrades import back_at

pytestmark = [pytest.mark.capability("SUP-01"), pytest.mark.django_db(transaction=True), pytest.mark.both_databases]


def test_agents_that_were_there_get_no_limit_that_they_might_not_keep(make_agent: Callable[..., Agent]) -> None:
    old = make_agent(name="old")
    with back_at("supervisor", "0002_chains"):
        pass
    old.refresh_from_db()
    assert (old.max_memory_mb, old.max_cpu_seconds, old.max_processes) == (None, None, 64)
    new = make_agent(name="new")
    assert (new.max_memory_mb, new.max_cpu_seconds) == (2048, None)
