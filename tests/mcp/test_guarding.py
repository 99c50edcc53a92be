"""The general form of a breaker, for whatever outside service Gatehouse itself calls by a name."""

from datetime import timedelta

import pytest
from django.db.models import F

from mcp.limits import breakers
from mcp.limits.breakers import BreakerOpen
from mcp.models import Breaker
from nhi.models import AuditEvent

pytestmark = [
    pytest.mark.capability("MCP-09"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]
NAME = "model endpoint"


class Fault(Exception):
    """What a service may do."""


def use(*, well: bool) -> str:
    try:
        with breakers.guard_call(NAME, threshold=3, recovery_timeout=60):
            if not well:
                raise Fault
    except (Fault, BreakerOpen) as error:
        return type(error).__name__
    return "went well"


def wait(seconds: int) -> None:
    Breaker.objects.update(last_state_change=F("last_state_change") - timedelta(seconds=seconds))


def state() -> str:
    return Breaker.objects.get(service_name=NAME).state


def test_a_service_that_fails_is_left_alone_then_tried_by_one() -> None:
    assert [use(well=False) for _ in range(4)] == ["Fault", "Fault", "Fault", "BreakerOpen"]
    assert state() == "OPEN"
    wait(59)
    assert use(well=True) == "BreakerOpen"
    wait(1)
    with breakers.guard_call(NAME):
        assert state() == "HALF-OPEN"
        assert use(well=True) == "BreakerOpen", "one at a time tries"
    assert state() == "CLOSED"
    assert use(well=True) == "went well"
    told = AuditEvent.objects.filter(event__startswith="breaker.").order_by("at", "writer_seq")
    assert list(told.values_list("event", flat=True)) == ["breaker.opened", "breaker.closed"]


def test_a_probe_that_fails_leaves_it_alone_again_and_what_goes_well_is_forgotten() -> None:
    assert [use(well=well) for well in (False, False, True, False, False)][-1] == "Fault"
    assert state() == "CLOSED", "only faults in a row count"
    use(well=False)
    wait(60)
    assert use(well=False) == "Fault"
    assert (state(), use(well=True)) == ("OPEN", "BreakerOpen")
