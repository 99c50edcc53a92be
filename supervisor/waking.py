"""Telling a worker that there is something to start. A hint: who does not hear it looks again in half a second.

Runs that come together are one message: whoever hears it looks at once, and again when the others are there too.
"""

import logging
import threading
import time

from celery import current_app
from django.db import transaction
from kombu.exceptions import OperationalError

log = logging.getLogger(__name__)
#: By then every runner has looked by itself.
EXPIRES = 5.0
#: Seconds in which a process says it once; and from hearing it to the second look, which is later than all of these.
TOGETHER, AGAIN = 0.005, 0.01


class _Said:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = float("-inf")

    def lately(self) -> bool:
        """Whether somebody was told a moment ago; if not, the one who asks tells."""
        now = time.monotonic()
        with self._lock:
            if now - self._last < TOGETHER:
                return True
            self._last = now
        return False


_said = _Said()


def wake() -> None:
    """Once what was written is committed, say so to one of the workers that run agents."""
    transaction.on_commit(say)


def say() -> None:
    """At once; nothing that it is about is in a transaction."""
    if _said.lately():
        return
    try:
        current_app.send_task("supervisor.wake", queue="runs", expires=EXPIRES, retry=False)
    except OperationalError as error:
        log.warning("No worker was woken: the broker is away (%s).", type(error).__name__)
