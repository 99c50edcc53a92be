"""Receivers that may be called, and tasks that end with a callback to one."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from a2a.models import Delivery
from tests.a2a.callbacks import receiver as receivers
from tests.a2a.callbacks.receiver import Receiver
from tests.a2a.conftest import Stage
from tests.nhi import cast

Ending = Callable[..., Delivery]


@pytest.fixture
def make_receiver(settings: Any) -> Iterator[Callable[[], Receiver]]:
    open_ones = []

    def make() -> Receiver:
        serving = receivers.serving()
        made = serving.__enter__()
        open_ones.append(serving)
        settings.EGRESS_ALLOW = settings.EGRESS_ALLOW | {made.place}
        return made

    yield make
    for serving in open_ones:
        serving.__exit__(None, None, None)


@pytest.fixture
def receiver(make_receiver: Callable[[], Receiver]) -> Receiver:
    return make_receiver()


def ended(stage: Stage, url: str, **more: Any) -> Delivery:
    """The delivery of a task that was sent with this callback and completed."""
    task_id = stage.sent(callback_url=url, **more)
    token = stage.claimed(task_id)
    assert stage.tells(task_id, "complete", lease_token=token, result={"summary": "Done."}).status == 200
    return Delivery.objects.get(task_id=task_id)


def now_of(delivery: Delivery) -> Delivery:
    return Delivery.objects.select_related("task").get(pk=delivery.pk)


def make_due(delivery: Delivery) -> None:
    """As if its next time had come."""
    Delivery.objects.pending().filter(pk=delivery.pk).update(next_at=cast.past(seconds=1))
