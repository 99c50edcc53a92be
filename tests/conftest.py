"""What every test may rely on: markers, a broker of its own, guards that survive Django's flush, a real house."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from django.conf import settings
from django.core.management.commands import flush

from mcp.gateway.batch import database
from nhi.credentials import last_used
from nhi.identities import lifecycle
from tests.services import cleaning, guards, valkey
from tests.services.house import House, embedded

pytest_plugins = ("tests.promises", "tests.services.browser")

MARKERS = (
    "capability(*ids): the promises of CAPABILITIES.md that this test proves",
    "both_databases: runs on PostgreSQL and again on SQLite",
    "browser: drives a real browser",
)


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    # The same examples in every run, and no verdict by the clock of a busy machine.
    hypothesis.settings.register_profile("gatehouse", derandomize=True, database=None, deadline=None)
    # What is broken on purpose need only be seen to be.
    unshrunk = [phase for phase in hypothesis.Phase if phase not in (hypothesis.Phase.shrink, hypothesis.Phase.explain)]
    hypothesis.settings.register_profile("mutated", hypothesis.settings.get_profile("gatehouse"), phases=unshrunk)
    hypothesis.settings.load_profile("mutated" if "GATEHOUSE_MUTATION" in os.environ else "gatehouse")


@pytest.fixture(scope="session", autouse=True)
def _flush_past_the_guards() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flush, "Command", guards.Flush)
        yield


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Pytest's own, and then what is quicker than Django's way to clean up."""
    with django_db_blocker.unblock():
        cleaning.begin()
    yield
    with django_db_blocker.unblock():
        cleaning.end()


@pytest.fixture(scope="session", autouse=True)
def _last_uses_stay_in_memory() -> Iterator[None]:
    """No thread of this process writes between tests, or to a database that is gone; houses have their own."""
    last_used.recorder._thread = threading.current_thread()
    yield
    last_used.recorder.restart()


@pytest.fixture(scope="session", autouse=True)
def _patient_batch_worker() -> Iterator[None]:
    """The machine of the tests may stand still for seconds. Installations that a test starts keep their timeouts."""
    with pytest.MonkeyPatch.context() as patch:
        timeouts = ("SET statement_timeout = 10000", "SET lock_timeout = 5000")
        patch.setattr(database, "SESSION_SETTINGS", (*database.SESSION_SETTINGS, *timeouts))
        yield


@pytest.fixture(autouse=True)
def _no_stop_waits_for_what_it_cannot_see(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps of a stop have connections of their own, which see nothing of a test that commits nothing.

    On SQLite they would wait for who writes, which is the test itself, and the stop for them.
    """
    marked = request.node.get_closest_marker("django_db")
    committing = {"transactional_db", "live_server"} & set(request.fixturenames)
    if not committing and not (marked and marked.kwargs.get("transaction")):
        monkeypatch.setattr(lifecycle, "STEP_SECONDS", 0.05)


@pytest.fixture(scope="session", autouse=True)
def broker() -> Iterator[str]:
    """The broker's URL: the one of the environment, else a Valkey of this test process."""
    if settings.VALKEY_SOCKET is None:
        yield settings.BROKER_URL
        return
    with valkey.server(settings.VALKEY_SOCKET):
        yield settings.BROKER_URL


@pytest.fixture(scope="session")
def running_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """`manage.py up` with the demo, on embedded defaults, ready; it is stopped at the end and must leave nothing."""
    with embedded(Path(tmp_path_factory.mktemp("house")), first=True) as house:
        house.wait_until_ready()
        yield house
        assert house.stop() == 0
        house.assert_nothing_left()
