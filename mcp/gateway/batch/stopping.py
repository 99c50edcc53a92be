"""The gateway's step of the kill switch: stops the active calls of an identity."""

from collections.abc import Sequence

from django.db.models import Q, QuerySet

from mcp.models import Call
from nhi.hooks import StopStep
from nhi.models import Identity

STOP_REASON = "revoked_in_flight"


def count_calls(identities: Sequence[Identity]) -> int:
    return _calls_of(identities).count()


def stop_calls(identity: Identity) -> int:
    """Mark the active calls to be stopped. The processes that make them check every second."""
    return _calls_of([identity]).update(stop_reason=STOP_REASON)


def _calls_of(identities: Sequence[Identity]) -> "QuerySet[Call]":
    ids = [identity.pk for identity in identities]
    return Call.objects.filter(Q(agent_id__in=ids) | Q(tool_id__in=ids), stop_reason="")


CALLS_STOP_STEP = StopStep("calls", stop_calls, count_calls)
