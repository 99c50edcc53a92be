"""The console's people over agents of the demo's identities."""

import pytest

from supervisor.models import Agent
from tests.console.conftest import _no_kept_counts as _no_kept_counts
from tests.console.conftest import mara as mara
from tests.console.conftest import seeded as seeded
from tests.console.conftest import signed_in as signed_in
from tests.console.conftest import visit as visit
from tests.supervisor.console import scene


@pytest.fixture
def ship(seeded: None) -> Agent:
    """Deploy-bot's, which writes: one at a time."""
    return scene.agent("ship", access_type="read-write", queue_depth=3)
