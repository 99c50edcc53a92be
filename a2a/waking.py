"""Telling a worker that a callback waits. A hint: who does not hear it finds it within two seconds."""

import logging

from celery import current_app
from django.db import transaction
from kombu.exceptions import OperationalError

log = logging.getLogger(__name__)
EXPIRES = 5.0


def wake() -> None:
    """Once what was written is committed."""
    transaction.on_commit(_publish)


def _publish() -> None:
    try:
        current_app.send_task("a2a.deliver", queue="control", expires=EXPIRES, retry=False)
    except OperationalError as error:
        log.warning("No callback was announced: the broker is away (%s).", type(error).__name__)
