"""A web process tells every few seconds that it lives."""

import asyncio
import logging
import threading

from django.db import DatabaseError, connection

from nhi import processes
from nhi.models.processes import ProcessKind

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
            self._say(leaving=False)
            self._end.wait(processes.BEAT_EVERY.total_seconds())
        self._say(leaving=True)

    def _say(self, *, leaving: bool) -> None:
        try:
            (processes.leave if leaving else processes.seen)(kind=ProcessKind.WEB)
        except DatabaseError as error:
            log.warning("No heartbeat: the database is away (%s).", type(error).__name__)
        finally:
            connection.close()
