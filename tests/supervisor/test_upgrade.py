"""Agents of a house that is upgraded go on as they did."""

from collections.abc import Callable, Iterator

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from supervisor.models import Agent

pytestmark = [pytest.mark.capability("SUP-01"), pytest.mark.django_db(transaction=True)]


def migrate(to: str) -> None:
    executor = MigrationExecutor(connection)
    executor.migrate([("supervisor", to)])


@pytest.fixture
def before_limits() -> Iterator[Callable[[], None]]:
    """Goes back to where agents had none; afterwards everything is there again."""
    newest = MigrationExecutor(connection).loader.graph.leaf_nodes("supervisor")[0][1]
    yield lambda: migrate("0002_chains")
    migrate(newest)


@pytest.mark.both_databases
def test_agents_that_were_there_get_no_limit_that_they_might_not_keep(
    make_agent: Callable[..., Agent], before_limits: Callable[[], None]
) -> None:
    old = make_agent(name="old")
    before_limits()
    migrate("0003_limits_of_a_run")
    old.refresh_from_db()
    assert (old.max_memory_mb, old.max_cpu_seconds, old.max_processes) == (None, None, 64)
    new = make_agent(name="new")
    assert (new.max_memory_mb, new.max_cpu_seconds) == (2048, None)
