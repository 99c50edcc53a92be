"""Numbers for Prometheus, at /metrics. They hold no names and no secrets; METRICS_TOKEN guards them where it is set.

With PROMETHEUS_MULTIPROC_DIR set, as `manage.py up` does, every process of the host counts into that directory and
any web process answers for all of them. Without it, a process answers for itself.
"""

import os
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import prometheus_client
from celery import signals
from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from common import crypto
from common.asgi.bodies import AsgiApplication, AsgiMessage, Receive
from mcp.gateway import call_telemetry
from nhi import process_heartbeats
from supervisor import numbers

REQUESTS = prometheus_client.Counter("gatehouse_requests", "Requests answered.", ["method", "route", "status"])
SECONDS = prometheus_client.Histogram("gatehouse_request_seconds", "Time to answer them.", ["route"])
TASKS = prometheus_client.Counter("gatehouse_tasks", "Celery tasks ended.", ["task", "state"])
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class FromDatabase(Collector):
    """What only the database knows, read at each scrape."""

    def collect(self) -> Iterator[Metric]:
        up = GaugeMetricFamily("gatehouse_database_up", "1 when the database answered this scrape.")
        heard = GaugeMetricFamily("gatehouse_processes", "Processes heard of lately.", labels=["kind"])
        try:
            alive = process_heartbeats.count_alive(timezone.now())
        except DatabaseError:
            alive = {}
        for kind, count in alive.items():
            heard.add_metric([kind.value], count)
        up.add_metric([], float(bool(alive)))
        yield from (up, heard)
        if alive:
            yield from _runs()


def _runs() -> Iterator[Metric]:
    try:
        now = numbers.now()
    except DatabaseError:
        return
    runs = GaugeMetricFamily("gatehouse_runs", "Runs of agents by whether they wait or hold a slot.", labels=["state"])
    runs.add_metric(["waiting"], now.waiting)
    runs.add_metric(["held"], now.held)
    places = GaugeMetricFamily("gatehouse_run_places", "Runs that the workers heard of lately can hold.")
    places.add_metric([], now.capacity)
    yield from (runs, places)


def measured(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: count each request under its route, never under its path, which strangers choose."""

    def middleware(request: HttpRequest) -> HttpResponse:
        begun = time.monotonic()
        response = get_response(request)
        route = request.resolver_match.route if request.resolver_match else "unmatched"
        method = request.method if request.method in METHODS else "other"
        REQUESTS.labels(method, route, response.status_code).inc()
        SECONDS.labels(route).observe(time.monotonic() - begun)
        return response

    return middleware


def counting(route: str) -> Callable[[dict[str, Any], Any], Any]:
    """The same for what Django does not see: makes of a way to send one that counts the answer on it."""

    def wrapped(scope: dict[str, Any], send: Any) -> Any:
        begun = time.monotonic()

        async def counted(message: AsgiMessage) -> None:
            if message["type"] == "http.response.start":
                _requests(scope["method"], route, message["status"]).inc()
            elif not message.get("more_body"):
                _seconds(route).observe(time.monotonic() - begun)
            await send(message)

        return counted

    return wrapped


def counted(application: AsgiApplication, counting: Callable[[dict[str, Any], Any], Any]) -> AsgiApplication:
    async def outer(scope: dict[str, Any], receive: Receive, send: Any) -> None:
        await application(scope, receive, counting(scope, send))

    return outer


@lru_cache(maxsize=1024)
def _requests(method: str, route: str, status: int) -> prometheus_client.Counter:
    """Found once: looking labels up takes longer than counting."""
    return REQUESTS.labels(method if method in METHODS else "other", route, status)


@lru_cache(maxsize=64)
def _seconds(route: str) -> prometheus_client.Histogram:
    return SECONDS.labels(route)


@signals.task_postrun.connect
def count_task(task: Any, state: str | None = None, **_: Any) -> None:
    TASKS.labels(task.name, (state or "unknown").lower()).inc()


def registry() -> prometheus_client.CollectorRegistry:
    gathered = prometheus_client.CollectorRegistry()
    gathered.register(FromDatabase())
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        MultiProcessCollector(gathered)  # type: ignore[no-untyped-call]  # the package leaves it untyped
    else:
        for own in (REQUESTS, SECONDS, TASKS, call_telemetry.CALL_COUNTER, call_telemetry.CALL_SECONDS):
            gathered.register(own)
    return gathered


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """What Prometheus reads. A wrong token costs no work of the database's."""
    if not _may_read(request):
        message = "Send the METRICS_TOKEN of this installation: Authorization: Bearer …\n"
        headers = {"WWW-Authenticate": "Bearer"}
        return HttpResponse(message, status=401, content_type="text/plain; charset=utf-8", headers=headers)
    return HttpResponse(
        prometheus_client.generate_latest(registry()), content_type=prometheus_client.CONTENT_TYPE_LATEST
    )


def _may_read(request: HttpRequest) -> bool:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    is_sent = scheme.lower() == "bearer" and crypto.is_equal_in_constant_time(
        token.strip().encode(), settings.METRICS_TOKEN.encode()
    )
    return is_sent or not settings.METRICS_TOKEN
