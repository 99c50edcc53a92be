"""A failure that is committed after others that ended later was seen by nobody who saw those."""

from datetime import timedelta

import pytest
from django.core.cache import cache
from django.test import Client

from nhi.models import LastLook, Seen
from supervisor.admin.executions_seen import PAGE
from supervisor.models import Agent, Execution
from tests.supervisor.console.scene import RUNS
from tests.supervisor.console.test_seen import button, counted, failed, listed

pytestmark = [pytest.mark.capability("CON-02", "SUP-10"), pytest.mark.django_db]


def committed_late(agent: Agent, *, behind: Execution) -> Execution:
    """It ended before that one did, and is there only now."""
    late = failed(agent)
    behind.refresh_from_db()
    assert behind.end_time
    Execution.objects.filter(pk=late.pk).update(end_time=behind.end_time - timedelta(milliseconds=5))
    cache.clear()
    return late


@pytest.mark.both_databases
def test_what_is_committed_after_the_mark_is_unseen_though_it_ended_before(ship: Agent, mara: Client) -> None:
    first = failed(ship)
    mara.post(button(mara))
    late = committed_late(ship, behind=first)
    assert counted(mara) == 1
    assert listed(mara) == [str(late)]
    mara.post(button(mara))
    assert counted(mara) == 0


@pytest.mark.both_databases
def test_what_is_committed_between_the_look_and_the_mark_stops_the_mark(ship: Agent, mara: Client) -> None:
    first = failed(ship)
    there = button(mara)
    late = committed_late(ship, behind=first)
    answer = mara.post(there)
    assert answer.status_code == 409
    assert "look at the list again" in answer.content.decode()
    assert not LastLook.objects.exists()
    assert sorted(listed(mara)) == sorted([str(first), str(late)])


@pytest.mark.both_databases
def test_what_is_long_past_is_kept_as_one_moment(ship: Agent, mara: Client) -> None:
    first, second = failed(ship), failed(ship)
    mara.post(button(mara))
    assert set(Seen.objects.values_list("subject_id", flat=True)) == {first.pk, second.pk}
    # As if those had been two hours ago.
    for rows, names in ((Execution.objects.all(), ("created_at", "end_time")), (Seen.objects.all(), ("at",))):
        for row in rows:
            rows.filter(pk=row.pk).update(**{name: getattr(row, name) - timedelta(hours=2) for name in names})
    cache.clear()
    third = failed(ship)
    mara.post(button(mara))
    assert list(Seen.objects.values_list("subject_id", flat=True)) == [third.pk]
    assert LastLook.objects.get(page=PAGE).at > Seen.objects.get().at - timedelta(hours=2)
    assert counted(mara) == 0
    assert listed(mara, f"{RUNS}?state=wrong&seen=no") == []


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00Z", "1970-01-02T00:00:00Z", "2026-01-01", "soon", ""])
def test_a_moment_that_is_none_is_not_there(mara: Client, moment: str) -> None:
    answer = mara.post(f"{RUNS}seen/?state=wrong&moment={moment}&mark=0")
    assert answer.status_code == 404
    assert not LastLook.objects.exists()
