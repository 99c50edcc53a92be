"""A small limit of refusals a minute, and the end of that minute."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from common.db import clock
from nhi.audit import refusal_limits
from nhi.models import AuditEvent, RefusalCount

LIMIT = 3


@contextmanager
def limited() -> Iterator[None]:
    """A test that runs over the end of a minute counts as one: the hour stands for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(refusal_limits, "MAX_ROWS_PER_MINUTE", LIMIT)
        patch.setattr(
            refusal_limits, "minute_of", lambda moment: moment.replace(minute=0, second=0, microsecond=0)
        )  # fmt: skip
        yield


def flushed(event: str) -> AuditEvent:
    """The one event that stands for those that were counted."""
    RefusalCount.objects.update(minute=clock.database_now() - timedelta(minutes=3))
    refusal_limits.flush_counts()
    return AuditEvent.objects.get(event=event, details__has_key="count")
