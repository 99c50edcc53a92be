"""The console's people over tasks of the demo's identities."""

import pytest

from a2a.models import Delivery, Task
from nhi.models import Identity
from tests.a2a import rows
from tests.a2a.console import scene
from tests.console.conftest import _no_kept_counts as _no_kept_counts
from tests.console.conftest import identity
from tests.console.conftest import mara as mara
from tests.console.conftest import seeded as seeded
from tests.console.conftest import signed_in as signed_in
from tests.console.conftest import visit as visit


@pytest.fixture
def writer(seeded: None) -> Identity:
    return identity("writer")


@pytest.fixture
def each(writer: Identity) -> dict[str, Delivery]:
    return scene.of_each(writer)


@pytest.fixture
def planner(seeded: None) -> Identity:
    return identity("planner")


@pytest.fixture
def plan(planner: Identity) -> Task:
    """What mara asked of the planner, whose worker has it."""
    task = rows.sent(planner, task_type="plan")
    rows.claimed(task)
    return task


@pytest.fixture
def draft(plan: Task, planner: Identity, writer: Identity) -> Task:
    """A part of it that nobody has taken."""
    return rows.sent(writer, task_type="draft", source_agent_id=planner.pk, parent_task_id=plan.pk)
