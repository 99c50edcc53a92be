"""The state machine of a run: what is legal, what is on record, and who wins a race."""

from collections.abc import Callable
from itertools import product

import pytest

from common.errors import InvalidTransition
from supervisor import lifecycle
from supervisor.choices import OUTCOMES, TRANSITIONS, ExecutionState
from supervisor.models import Agent, Execution

S = ExecutionState
pytestmark = [pytest.mark.capability("SUP-03"), pytest.mark.django_db, pytest.mark.both_databases]
#: Written out, so that the table of the product is compared with something.
LEGAL = """
queued starting   queued cancelled  queued failed   idle starting
starting running  starting failed   starting cancelled
running completed running failed    running timeout running cancelled
completed cleanup failed cleanup    timeout cleanup cancelled cleanup
failed starting   cleanup idle
"""


def test_the_moves_are_those_of_the_contract() -> None:
    words = LEGAL.split()
    pairs = set(zip(words[::2], words[1::2], strict=True))
    assert pairs == {(old.value, new.value) for old, to in TRANSITIONS.items() for new in to}


def test_no_other_move_is_made(make_agent: Callable[..., Agent], submit: Callable[..., Execution]) -> None:
    run = submit(make_agent())
    for old, new in product(S, S):
        if new not in TRANSITIONS[old]:
            Execution.objects.filter(pk=run.pk).update(state=old, status=OUTCOMES.get(old))
            run.refresh_from_db()
            with pytest.raises(InvalidTransition):
                lifecycle.move(run, new)
            assert Execution.objects.get(pk=run.pk).state == old
    assert run.transitions.count() == 1


def test_every_move_is_on_record_in_order(make_agent: Callable[..., Agent], submit: Callable[..., Execution]) -> None:
    run = submit(make_agent())
    lifecycle.move(run, S.STARTING, "Slot 1.", slot=1)
    lifecycle.walk(run, [(S.RUNNING, ""), (S.FAILED, "Exit code 1."), (S.CLEANUP, ""), (S.IDLE, "")], slot=None)
    kept = Execution.objects.get(pk=run.pk)
    assert (kept.state, kept.previous_state, kept.status, kept.slot) == ("idle", "cleanup", "failure", None)
    assert kept.end_time == kept.last_state_change
    assert kept.sealed_input == ""
    rows = run.transitions.values_list("seq", "from_state", "to_state")
    assert list(rows) == [
        (1, "", "queued"),
        (2, "queued", "starting"),
        (3, "starting", "running"),
        (4, "running", "failed"),
        (5, "failed", "cleanup"),
        (6, "cleanup", "idle"),
    ]


def test_of_two_moves_from_one_state_one_is_made(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution]
) -> None:
    run = submit(make_agent())
    other = Execution.objects.get(pk=run.pk)
    lifecycle.move(run, S.STARTING)
    with pytest.raises(InvalidTransition, match="is starting now"):
        lifecycle.walk(other, lifecycle.to_the_end(S.CANCELLED, "Too late."))
    assert list(run.transitions.values_list("to_state", flat=True)) == ["queued", "starting"]
