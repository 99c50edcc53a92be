"""A web process tells every few seconds that it lives, and lets the workers tell the same.

They hear from beat as well; asked by both, a worker is not taken for dead when it is beat that hangs.
"""

import asyncio
import logging
import threading

from django.db import DatabaseError, connection
from kombu.exceptions import OperationalError

from nhi import process_heartbeats
from nhi.celery_tasks import tick
from nhi.models.processes import ProcessKind

TICK_EVERY = 5.0
WORKERS = {"control": ProcessKind.WORKER_CONTROL, "runs": ProcessKind.WORKER_RUNS}
log = logging.getLogger(__name__)


class Pulse:
    def __init__(self) -> None:
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="pulse", daemon=True)

    def start(self) -> None:
        self._thread.start()

    async def stop(self) -> None:
        self._end.set()
        await asyncio.to_thread(self._thread.join, 2)

    def _beat(self) -> None:
        while not self._end.is_set():
            try:
                self._say(leaving=False)
                self._ask()
            except Exception:  # whatever it was, a web process that serves must not look dead for it
                log.exception("A heartbeat failed.")
            self._end.wait(TICK_EVERY)
        self._say(leaving=True)

    def _ask(self) -> None:
        for queue, kind in WORKERS.items():
            try:
                tick.apply_async(args=(kind.value,), queue=queue, expires=TICK_EVERY * 2, retry=False)
            except OperationalError as error:
                log.warning("No tick to %s: the broker is away (%s).", kind.value, type(error).__name__)

    def _say(self, *, leaving: bool) -> None:
        try:
            (process_heartbeats.remove_own if leaving else process_heartbeats.record_heartbeat)(kind=ProcessKind.WEB)
        except DatabaseError as error:
            log.warning("No heartbeat: the database is away (%s).", type(error).__name__)
        finally:
            connection.close()
