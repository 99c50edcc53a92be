"""What the dispatcher asks of this runtime: a task is carried to where its agent's server was set to be."""

from dataclasses import replace
from typing import cast
from uuid import UUID

from a2a import runtimes
from a2a.carriers import Carrier, Check
from a2a.models import Runtime, Task
from a2a.remote import carrying, forwarding
from a2a.remote.target import Binding, Credential, Target, Version
from common.executors import run_in_thread

AUTHORIZATION = "Authorization"


async def carry(task_id: UUID, check: Check) -> None:
    """Until it has ended or waits for its caller: then it is taken up again once that has said more."""
    target = await run_in_thread(lambda: target_of(Task.objects.select_related("runtime").get(pk=task_id)))
    await carrying.carry(task_id=task_id, target=target, check=check)


async def forward_cancel(task: Task) -> None:
    target = await run_in_thread(lambda: target_of(Task.objects.select_related("runtime").get(pk=task.pk)))
    await forwarding.forward_cancel(task_id=task.pk, target=target)


def target_of(task: Task) -> Target:
    """As it was set when the task was sent."""
    assert task.runtime is not None  # nobody hands a task to a server without saying which
    return target_behind(task.runtime)


def target_behind(runtime: Runtime) -> Target:
    found = Target(
        url=runtime.url,
        version=cast("Version", runtime.wire_version),
        binding=cast("Binding", runtime.binding),
        timeout=float(runtime.timeout),
    )
    credential = _credential(runtime)
    return replace(found, credential=credential) if credential else found


def _credential(runtime: Runtime) -> Credential | None:
    secret = runtimes.credential(runtime)
    return Credential(runtime.header or AUTHORIZATION, f"{runtime.scheme} {secret}".strip()) if secret else None


CARRIER = Carrier(carry, forward_cancel)
