"""Tasks that wait while a person looks at a call of theirs: they say so, and go on once it is decided.

The call itself waits for nothing: it was answered at once and is sent again. This only tells whoever follows the task.
"""

from uuid import UUID

from django.db import transaction

from a2a import parts, writer
from a2a.changes import Status
from a2a.choices import Role, TaskState
from a2a.models import AwaitedCall, Task
from common.db import clock
from mcp.choices import ApprovalState
from mcp.models import CallApproval
from nhi.hooks import WaitingCall, WaitingCallListener

BECAME = {
    ApprovalState.APPROVED: "A person approved the call of {tool}.",
    ApprovalState.USED: "A person approved the call of {tool}.",
    ApprovalState.REFUSED: "A person refused the call of {tool}.",
}
NOBODY = "Nobody decided about the call of {tool} in time."


def waits(waiting: WaitingCall) -> None:
    """A call within the task waits. One that is not worked on, or waits for somebody else as it is, stays as it is."""
    with transaction.atomic():
        task = writer.locked(waiting.task_id)
        awaited = AwaitedCall.objects.filter(task=task)
        ours = task.state == TaskState.AUTH_REQUIRED and awaited.exists()
        if not (ours or task.state == TaskState.WORKING) or not _is_pending(waiting.approval_id):
            return
        AwaitedCall.objects.get_or_create(task=task, approval_id=waiting.approval_id)
        if not ours:
            said = f"A person has to approve the call of {waiting.tool} ({waiting.approval_id}), at most until "
            until = waiting.expires_at.isoformat(timespec="seconds").replace("+00:00", "Z")
            writer.write(task, Status(TaskState.AUTH_REQUIRED, _said(f"{said}{until}.")))


def decided(approval_id: UUID) -> None:
    for task_id in AwaitedCall.objects.filter(approval_id=approval_id).values_list("task_id", flat=True):
        settle(task_id)


def settle(task_id: UUID) -> bool:
    """Let the task go on if nothing of it waits any more; whether that made it."""
    with transaction.atomic():
        task = writer.locked(task_id)
        awaited = list(AwaitedCall.objects.filter(task=task))
        over = [one for one in awaited if not task.is_open or not _is_pending(one.approval_id)]
        AwaitedCall.objects.filter(pk__in=[one.pk for one in over]).delete()
        if not over or len(over) < len(awaited) or task.state != TaskState.AUTH_REQUIRED:
            return False
        said = _said(_what_became(over[-1].approval_id))
        # Its worker could do nothing meanwhile: it has a whole lease again.
        kept = {"lease_until": clock.parse_database_time(task.now) + task.lease} if task.lease_mark is not None else {}  # type: ignore[attr-defined]  # annotated by `locked`
        writer.write(task, Status(TaskState.WORKING, said), **kept)
        return True


def settle_all(most: int = 200) -> int:
    """What nobody was told of: approvals whose time is over, and those whose decision was not passed on."""
    now = clock.database_now()
    pending = CallApproval.objects.filter(state=ApprovalState.PENDING, expires_at__gt=now).values("pk")
    over = AwaitedCall.objects.exclude(approval_id__in=pending).values_list("task_id", flat=True)
    return sum(settle(task_id) for task_id in set(over[:most]))


def of(task: Task) -> CallApproval | None:
    """The call that the task waits for, the oldest of several."""
    awaited = AwaitedCall.objects.filter(task=task).values("approval_id")
    found: CallApproval | None = CallApproval.objects.filter(pk__in=awaited).order_by("asked_at").first()
    return found


def _is_pending(approval_id: UUID) -> bool:
    waiting = CallApproval.objects.filter(pk=approval_id, state=ApprovalState.PENDING)
    return waiting.filter(expires_at__gt=clock.database_now()).exists()


def _what_became(approval_id: UUID) -> str:
    approval = CallApproval.objects.filter(pk=approval_id).first()
    if approval is None:
        return "The call that it waited for is not known any more."
    return BECAME.get(ApprovalState(approval.state), NOBODY).format(tool=approval.tool_name)


def _said(text: str) -> parts.Message:
    return parts.message(Role.AGENT, [parts.text(text)])


LISTENER = WaitingCallListener(waits, decided)
