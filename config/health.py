"""Is the process alive, is the house ready: /healthz for who restarts it, /readyz for who sends it work.

Each check runs in a thread of its own and is waited for no longer than the others: a database that hangs is
reported as hanging while the caller still listens.
"""

import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

from celery import current_app
from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_safe
from kombu.exceptions import OperationalError

from nhi import process_heartbeats
from nhi.audit import append_only_triggers, excess_rights
from nhi.models.processes import ProcessKind

PATIENCE = 2.0
#: How a client of HTTP/2 begins, with settings that are empty; and what kind of frame a server begins with.
HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)
SETTINGS = b"\x04"


class NotReady(Exception):
    """What is missing, as a sentence."""


@dataclass
class Check:
    name: str
    look: Callable[[], str]
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _asked: "Future[tuple[bool, str]] | None" = None
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "check"))

    def ask(self) -> "Future[tuple[bool, str]]":
        """The answer to come. While one hangs, who asks next waits for the same one: probes pile up nothing."""
        with self._lock:
            if self._asked is None or self._asked.done():
                self._asked = self._thread.submit(self._answer)
            return self._asked

    def _answer(self) -> tuple[bool, str]:
        try:
            return True, self.look()
        except NotReady as problem:
            return False, str(problem)
        except (DatabaseError, OperationalError, OSError) as error:
            return False, f"Away: {type(error).__name__}."
        finally:
            connection.close()


def database() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return f"{connection.vendor} answers."


def broker() -> str:
    with current_app.connection_for_write() as link:
        link.ensure_connection(max_retries=1, interval_start=0, timeout=2)
        channel: Any = link.default_channel  # opening it is what asks the broker
        channel.close()
    return "The broker answers."


def record_guards() -> str:
    if findings := append_only_triggers.inspect(connection):
        raise NotReady(
            f"Guards of append-only tables differ: {'; '.join(map(str, findings))}. "
            f"{append_only_triggers.remedy(connection, findings)}"
        )
    return "The append-only tables are guarded."


def grpc() -> str:
    """Whether HTTP/2 is spoken where the gRPC server is said to listen; with TLS, whether anybody listens."""
    for place in sorted(settings.GRPC_PROBE):
        host, _, port = place.rpartition(":")
        with socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE / 2) as link:
            if settings.GRPC_TLS_CERTIFICATE is None:
                link.sendall(HTTP2)
                if link.recv(9)[3:4] != SETTINGS:
                    raise NotReady(f"What listens at {place} does not speak gRPC.")
    return "The gRPC server answers."


def heartbeat(kind: ProcessKind) -> Callable[[], str]:
    def look() -> str:
        if kind in process_heartbeats.missing_kinds(timezone.now()):
            raise NotReady(
                f"No {kind.label.lower()} process was heard of in the last {process_heartbeats.LATE_AFTER.seconds} s."
            )
        return f"{kind.label} was heard of lately."

    return look


CHECKS = [
    Check("database", database),
    Check("broker", broker),
    Check("guards", record_guards),
    *([Check("grpc", grpc)] if settings.GRPC_PROBE else []),
    *(Check(kind.value, heartbeat(kind)) for kind in ProcessKind if kind not in {ProcessKind.WEB, ProcessKind.GRPC}),
]


def record_rights() -> str:
    """Never a failure: what the database role may do too much, a paragraph for each log table."""
    return "\n".join(excess_rights.excess_right_warnings(connection))


RECORD_RIGHTS = Check("record_rights", record_rights)


@dataclass(frozen=True)
class Readiness:
    checks: dict[str, dict[str, bool | str]]
    #: What is no reason to send work elsewhere, and still to be mended.
    warnings: list[dict[str, str]]

    @property
    def ready(self) -> bool:
        return all(check["ok"] for check in self.checks.values())


def report() -> Readiness:
    answers = {check.name: check.ask() for check in (*CHECKS, RECORD_RIGHTS)}
    wait(answers.values(), timeout=PATIENCE)
    silence = (False, f"No answer within {PATIENCE} s.")
    results = {name: answer.result() if answer.done() else silence for name, answer in answers.items()}
    # Nothing while the database does not answer: the checks say that already.
    known, text = results.pop(RECORD_RIGHTS.name)
    warnings = [{"code": RECORD_RIGHTS.name, "message": line} for line in text.splitlines() if known]
    return Readiness({name: {"ok": ok, "message": message} for name, (ok, message) in results.items()}, warnings)


@require_safe
def healthz(_request: HttpRequest) -> JsonResponse:
    return JsonResponse({"alive": True})


@require_safe
def readyz(_request: HttpRequest) -> JsonResponse:
    result = report()
    body = {"ready": result.ready, "checks": result.checks, "warnings": result.warnings}
    return JsonResponse(body, status=200 if result.ready else 503)
