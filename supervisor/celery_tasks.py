"""Work that Celery carries here. Each task calls a verb, and may run twice without harm."""

from typing import Any

from celery import shared_task, signals

from supervisor import reaping
from supervisor.runner import service
from supervisor.schedules import firing


@shared_task(name="supervisor.wake")
def wake(*_named: str) -> None:
    """Rows wait: the runner of this process looks at once, and claims what others have not.

    Processes of a former version name one of them.
    """
    service.poke()


@shared_task(name="supervisor.sweep")
def sweep() -> None:
    reaping.sweep()


@shared_task(name="supervisor.fire")
def fire() -> None:
    """Whatever is due by now; a due time fires once, however many workers look."""
    firing.sweep()


@signals.worker_ready.connect
def run_agents(sender: Any, **_: Any) -> None:
    """The worker of the queue `runs` is the one that runs them, beside its tasks and not in them."""
    if "runs" in sender.app.amqp.queues.consume_from:
        service.begin()


@signals.worker_shutting_down.connect
def end_agents(**_: Any) -> None:
    service.end()
