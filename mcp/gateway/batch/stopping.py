"""The gateway's part of the kill switch: calls that a stopped identity has under way."""

from collections.abc import Sequence

from django.db.models import Q, QuerySet

from mcp.models import Call
from nhi.hooks import StopStep
from nhi.models import Identity

STOP_REASON = "revoked_in_flight"


def count_calls(identities: Sequence[Identity]) -> int:
    return _calls_of(identities).count()


def stop_calls(identity: Identity) -> int:
    """Tell the processes that make them to give them up; they look every second."""
    return _calls_of([identity]).update(stop_reason=STOP_REASON)


def _calls_of(identities: Sequence[Identity]) -> "QuerySet[Call]":
    ids = [identity.pk for identity in identities]
    return Call.objects.filter(Q(agent_id__in=ids) | Q(tool_id__in=ids), stop_reason="")


CALLS_STOP_STEP = StopStep("calls", stop_calls, count_calls)
