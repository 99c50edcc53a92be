"""What a revoked grant leaves: a task that was sent by it goes on, and is its sender's to follow and to cancel."""

from dataclasses import replace

from a2a.admin.tasks_filters import OPEN, list_url
from a2a.models import Task
from common.admin.dialogs import Effect, counted
from nhi.admin import grants_left
from nhi.models import Identity


def left(caller: Identity, target: Identity) -> list[Effect]:
    count = Task.objects.open().filter(source_id=caller.pk, agent_id=target.pk).count()
    effect = counted(
        "open_tasks", count,
        f"{{}} open task of {caller} at {target} goes on; cancel it on its page",
        f"{{}} open tasks of {caller} at {target} go on; cancel them in their list",
    )  # fmt: skip
    where = {"state": OPEN, "from": str(caller.pk), "agent": str(target.pk)}
    return [replace(effect, url=list_url(**where))]


grants_left.add(left)
