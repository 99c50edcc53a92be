"""Celery: two queues, a beat that only ticks, and the request's id on every message.

A message is a hint. Rows are written first, their ids are published on commit, and a sweep finds what got lost, so
nothing here tries to make the broker more certain than it is.
"""

import logging.config
import os
from typing import Any

from celery import Celery, signals
from kombu import Exchange, Queue
from kombu.exceptions import OperationalError

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

from django.conf import settings
from django.db import connections

from common import context
from common.ids import parse_uuid, uuid7
from common.process import parent_death

REQUEST_ID = "gatehouse_request_id"
EXCHANGE = Exchange("gatehouse", type="direct")
# Read before a worker forks its pool.
MAIN_PID = os.getpid()


def ticks(name: str, *, queue: str, every: float, args: tuple[str, ...] = ()) -> dict[str, object]:
    # A tick that nobody took in time is stale: the next one says the same.
    return {"task": name, "schedule": every, "args": args, "options": {"queue": queue, "expires": every * 2}}


app = Celery("config")
app.conf.update(
    broker_url=settings.BROKER_URL,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_transport_options={
        "visibility_timeout": 21600,
        "unacked_restore_interval": 10,
        "unacked_restore_throttle": 1,
        "global_keyprefix": "gatehouse:",
        "socket_connect_timeout": 2,
        "socket_timeout": 3,
        # Who publishes in a request does not wait for ten more tries: a sweep finds what was not published.
        "max_retries": 0,
    },
    task_queues=[Queue(name, EXCHANGE, routing_key=name) for name in ("control", "runs")],
    task_default_queue="control",
    task_create_missing_queues=False,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    task_soft_time_limit=20,
    task_time_limit=30,
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    worker_enable_remote_control=False,
    beat_schedule={
        # The control worker is the one that vouches for beat.
        "tick-control": ticks("nhi.tick", queue="control", every=5.0, args=("worker-control", "beat")),
        "tick-runs": ticks("nhi.tick", queue="runs", every=5.0, args=("worker-runs",)),
        "sweep": ticks("nhi.sweep", queue="control", every=15.0),
        "watch-guards": ticks("nhi.watch_guards", queue="control", every=20.0),
        "sweep-calls": ticks("mcp.sweep", queue="control", every=15.0),
        "check-servers": ticks("mcp.check_servers", queue="control", every=10.0),
        "refresh-servers": ticks("mcp.refresh_servers", queue="control", every=10.0),
        "sweep-runs": ticks("supervisor.sweep", queue="control", every=15.0),
        "fire-schedules": ticks("supervisor.fire", queue="control", every=1.0),
        "sweep-tasks": ticks("a2a.sweep", queue="control", every=15.0),
        "end-late-tasks": ticks("a2a.end_late", queue="control", every=1.0),
        "deliver-callbacks": ticks("a2a.deliver", queue="control", every=1.0),
        "dispatch-tasks": ticks("a2a.dispatch_due", queue="control", every=1.0),
        "carry-tasks": ticks("a2a.carry", queue="control", every=2.0),
        "tidy-calls": ticks("mcp.tidy", queue="control", every=300.0),
    },
)
app.autodiscover_tasks(related_name="celery_tasks")


@signals.setup_logging.connect
def use_own_logging(**_: Any) -> None:
    logging.config.dictConfig(settings.LOGGING)


@signals.beat_init.connect
def tick_at_once(**_: Any) -> None:
    """Say that beat is here without waiting for the first interval to pass."""
    for entry in app.conf.beat_schedule.values():
        try:
            app.send_task(entry["task"], args=entry["args"], **entry["options"])
        except OperationalError:
            logging.getLogger(__name__).warning("The broker is away; beat goes on trying.")


@signals.worker_process_init.connect
def end_with_the_worker(**_: Any) -> None:
    """A pool process must not outlive its worker, however that ends."""
    parent_death.die_with_parent(MAIN_PID)


@signals.before_task_publish.connect
def send_request_id(headers: dict[str, Any], **_: Any) -> None:
    known = context.current_or_none()
    headers.setdefault(REQUEST_ID, str(known.request_id if known else uuid7()))


@signals.worker_process_init.connect
def keep_the_pool(**_: Any) -> None:
    """Celery closes the pool of a process after each task that the settings give one, and threads that outlive the task
    find it closed under them. What connects reads its own copy."""
    connected = connections.settings
    settings.DATABASES = {alias: {**one, "OPTIONS": {**one["OPTIONS"]}} for alias, one in connected.items()}
    for one in settings.DATABASES.values():
        one["OPTIONS"].pop("pool", None)


@signals.task_prerun.connect
def enter_context(task: Any, **_: Any) -> None:
    request_id = parse_uuid(str(getattr(task.request, REQUEST_ID, ""))) or uuid7()
    task.request.gatehouse_scope = scope = context.bind_context(context.RequestContext(request_id))
    scope.__enter__()


@signals.task_postrun.connect
def leave_context(task: Any, **_: Any) -> None:
    task.request.gatehouse_scope.__exit__(None, None, None)
