"""What the console's system page shows of the wiring: readiness by name, and what waits in the queues."""

from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTime
from threading import Lock
from typing import Any

from celery import current_app
from kombu.exceptions import OperationalError

from config import health
from nhi import hooks
from nhi.hooks import InstallationStatus, ReadinessReport

PATIENCE = 1


class Depths:
    """Asked in a thread of its own, so that a broker that hangs costs a page no more than its patience."""

    def __init__(self) -> None:
        self._lock, self._thread = Lock(), ThreadPoolExecutor(1, "depths")
        self._asked: Future[dict[str, int] | None] | None = None

    def __call__(self) -> dict[str, int] | None:
        with self._lock:
            if self._asked is None or self._asked.done():
                self._asked = self._thread.submit(_count)
            asked = self._asked
        try:
            return asked.result(timeout=PATIENCE)
        except NotInTime:
            return None


def readiness() -> ReadinessReport:
    report = health.report()
    checks = {name: (bool(check["ok"]), str(check["message"])) for name, check in report.checks.items()}
    return ReadinessReport(checks, [warning["message"] for warning in report.warnings])


def _count() -> dict[str, int] | None:
    try:
        with current_app.connection_for_read() as link:
            link.ensure_connection(max_retries=1, interval_start=0, timeout=PATIENCE)
            return {queue.name: _waiting(link, queue.name) for queue in current_app.conf.task_queues}
    except (OperationalError, OSError):
        return None


def _waiting(link: Any, queue: str) -> int:
    with link.channel() as channel:
        if hasattr(channel, "_size"):
            # kombu's Redis declares passively without the key prefix, and so finds no queue at all.
            return int(channel._size(queue))
        return int(channel.queue_declare(queue, passive=True).message_count)


hooks.set_installation_status(InstallationStatus(readiness=readiness, queues=Depths()))
