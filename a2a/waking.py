"""Telling a worker that something waits. A hint: who does not hear it finds the row within two seconds."""

import logging
from functools import partial
from uuid import UUID

from celery import current_app
from django.db import transaction
from kombu.exceptions import OperationalError

log = logging.getLogger(__name__)
EXPIRES = 5.0


def wake() -> None:
    """There is a callback, once what was written is committed."""
    _say("a2a.deliver")


def dispatch(agent_id: UUID) -> None:
    """There are tasks for this agent that runs here, once they are committed."""
    _say("a2a.dispatch", str(agent_id), queue="runs")


def carry() -> None:
    """There is a task for another server, once it is committed."""
    _say("a2a.carry")


def _say(what: str, *args: str, queue: str = "control") -> None:
    transaction.on_commit(partial(_publish, what, args, queue))


def _publish(what: str, args: tuple[str, ...], queue: str) -> None:
    try:
        current_app.send_task(what, args=args, queue=queue, expires=EXPIRES, retry=False)
    except OperationalError as error:
        log.warning("Nobody was told of %s: the broker is away (%s).", what, type(error).__name__)
