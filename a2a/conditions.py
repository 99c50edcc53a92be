"""What is known of the hour of a grant between identities, for checks and explanations outside of a sending."""

from typing import Any
from uuid import UUID

from a2a import hours
from nhi import facts
from nhi.models import NhiPermission
from nhi.terms import Condition


def conditions(caller_id: UUID, target_id: UUID, _parameters: Any) -> tuple[Condition, ...]:
    """Of a grant that limits calls per hour; of the one that would be used, where there are two."""
    limited = NhiPermission.objects.live().filter(source=caller_id, target=target_id, max_calls_per_hour__isnull=False)
    if not limited.exists():
        return ()
    matches = facts.for_question(caller_id, target_id).facts.matches
    counted = [one for one in matches if one.live and one.max_calls_per_hour is not None]
    narrowest = sorted(counted, key=lambda match: not match.delegates)
    return (hours.left(narrowest[0]),) if narrowest else ()
