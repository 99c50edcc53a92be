"""The gateway's part of the kill switch: calls that a stopped identity has under way."""

from django.db.models import Q, QuerySet

from mcp.models import Call
from nhi.models import Identity
from nhi.registry import StopStep

REASON = "revoked_in_flight"


def count(identity: Identity) -> int:
    return _of(identity).count()


def stop(identity: Identity) -> int:
    """Tell the processes that make them to give them up; they look every second."""
    return _of(identity).update(stop_reason=REASON)


def _of(identity: Identity) -> "QuerySet[Call]":
    return Call.objects.filter(Q(agent_id=identity.pk) | Q(tool_id=identity.pk), stop_reason="")


STEP = StopStep("calls", stop, count)
