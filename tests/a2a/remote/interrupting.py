"""Tasks that are left or cancelled while they are carried."""

import asyncio
from collections.abc import Callable
from typing import Any

from django.db import connection

from a2a.models import Task
from a2a.remote import Target, carry
from tests.a2a.remote.conftest import run


def left_alone(target: Target, task: Task, when: Callable[[], Any]) -> None:
    """Carried until `when` returns, and then dropped as a worker that ends drops it."""

    async def main() -> None:
        carried = asyncio.create_task(carry(task_id=task.pk, target=target))
        await asyncio.to_thread(when)
        carried.cancel()
        await asyncio.gather(carried, return_exceptions=True)

    run(main)


def in_thread(verb: Callable[[], Any]) -> Callable[[], Any]:
    """With a connection that is given back."""

    def done() -> None:
        try:
            verb()
        finally:
            connection.close()

    return done
