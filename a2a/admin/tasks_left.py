"""What a revoked grant leaves: a task that was sent by it goes on, and is its sender's to follow and to cancel."""

from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

from django.db.models import Count

from a2a.admin.tasks_filters import OPEN, list_url
from a2a.models import Task
from common.console.confirmation_dialogs import Effect, counted
from nhi.admin.grants import change
from nhi.admin.grants.change import Pairs
from nhi.models import Identity


def left(pairs: Pairs) -> list[Effect]:
    callers, targets = ({one.pk: one for one in side} for side in zip(*pairs, strict=True))
    wanted = {(caller.pk, target.pk) for caller, target in pairs}
    rows = Task.objects.open().filter(source_id__in=callers, agent_id__in=targets).order_by()
    sent = rows.values_list("source_id", "agent_id").annotate(tasks=Count("pk"))
    count = sum(tasks for caller, target, tasks in sent if (caller, target) in wanted)
    caller, target = _only(callers), _only(targets)
    by = f" of {caller}" if caller else " by these grants"
    at = f" at {target}" if target else ""
    effect = counted(
        "open_tasks", count,
        f"{{}} open task{by}{at} goes on; cancel it on its page",
        f"{{}} open tasks{by}{at} go on; cancel them in their list",
    )  # fmt: skip
    where = {name: str(one.pk) for name, one in (("from", caller), ("agent", target)) if one}
    return [replace(effect, url=list_url(state=OPEN, **where))]


def _only(side: Mapping[UUID, Identity]) -> Identity | None:
    return next(iter(side.values())) if len(side) == 1 else None


change.add_ongoing_work_source(left)
