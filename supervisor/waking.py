"""Telling a worker that there is something to start. A hint: who does not hear it looks again in half a second."""

import logging
from uuid import UUID

from celery import current_app
from django.db import transaction
from kombu.exceptions import OperationalError

log = logging.getLogger(__name__)
#: By then every runner has looked by itself.
EXPIRES = 5.0


def wake(execution_id: UUID) -> None:
    """Once the row is committed, say so to one of the workers that run agents."""
    transaction.on_commit(lambda: _publish(execution_id))


def _publish(execution_id: UUID) -> None:
    try:
        current_app.send_task("supervisor.wake", args=(str(execution_id),), queue="runs", expires=EXPIRES, retry=False)
    except OperationalError as error:
        log.warning("No worker was woken: the broker is away (%s).", type(error).__name__)
