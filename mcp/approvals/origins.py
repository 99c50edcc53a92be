"""Finds and records the people behind a waiting call, who may not decide about it.

Origins are recorded for every attempt while the approval is pending, and once more when somebody decides. A person who
owned a member of the chain when the call was made, or owns one now, is barred.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from uuid import UUID

from django.contrib.auth.models import Permission
from django.db.models import Q, QuerySet

from common.ids import parse_uuid
from mcp import rights
from mcp.choices import OriginKind
from mcp.models import CallApproval, CallApprovalOrigin
from nhi import hooks
from nhi.actors import READ_ONLY, Actor
from nhi.authorization import work_origins
from nhi.authorization.work_origins import OriginTrace
from nhi.choices import OriginRole
from nhi.hooks import WorkIds
from nhi.models import Identity, InvocationLog, User

WHY_BARRED = {
    OriginRole.ASKED: "You asked for the run that makes this call",
    OriginRole.SCHEDULE: "You set up or resumed the schedule behind this call",
    OriginRole.SESSION: "You took part in the session behind this call",
    OriginRole.TASK: "You created or answered the task behind this call",
    OriginRole.MEMBER: "You are in the chain of this call",
}
HANDLES_MEMBER = "You own, stand in for or made a credential of an identity behind this call"
NEEDS_SUPERUSER = (
    "No one who holds the role {roles} may decide about this call: each of them asked for it or handles an identity "
    "behind it. Another person with one of these roles, or a superuser, can decide."
)


@dataclass(frozen=True)
class CallRoots:
    """The identities and the work that a call itself names as its origin."""

    #: The agent and the identities of its delegation chain.
    parties: frozenset[UUID]
    work: WorkIds

    @classmethod
    def of_call(
        cls, *, agent_id: UUID, callers: Iterable[UUID], run_id: UUID | None, task_id: UUID | None
    ) -> "CallRoots":
        """Build the roots of a call. A call outside a run counts as part of all current work of its agent: an agent
        with its own credential cannot leave its chain by naming no task or another one."""
        work = WorkIds(frozenset({run_id} - {None}), frozenset({task_id} - {None}))  # type: ignore[arg-type]  # None is removed
        return cls(frozenset({agent_id, *callers}), work if run_id else work | hooks.load_current_work(agent_id))

    def find_origins(self) -> OriginTrace:
        return work_origins.trace_origins(work=self.work, parties=self.parties)


def record(approval: CallApproval, roots: CallRoots) -> None:
    """Record the origins of one attempt. An attempt with the same roots adds nothing and costs two queries."""
    recorded = set(approval.origins.values_list("object_id", flat=True))
    if {*roots.parties, *roots.work.runs, *roots.work.tasks} <= recorded:
        _note_deciders(approval)
    else:
        _save_origins(approval, roots.find_origins())


def refresh(approval: CallApproval) -> None:
    """Find and record the current origins of a call before somebody decides about it."""
    rows = approval.origins.exclude(kind=OriginKind.PERSON).values_list("kind", "object_id")
    ids: dict[str, set[UUID]] = {kind: set() for kind in OriginKind.values}
    for kind, object_id in rows:
        ids[kind].add(object_id)
    work = WorkIds(frozenset(ids[OriginKind.RUN]), frozenset(ids[OriginKind.TASK]))
    members = frozenset(ids[OriginKind.IDENTITY])
    roots = CallRoots(members, work) if members else _logged_roots(approval)
    _save_origins(approval, roots.find_origins())


def why_barred(actor: Actor, approval: CallApproval) -> str:
    """Return why this person is barred from deciding, as a sentence; empty for everybody else."""
    return why_barred_each(actor, [approval]).get(approval.pk, "")


def why_barred_each(actor: Actor, approvals: Collection[CallApproval]) -> dict[UUID, str]:
    """Like `why_barred` for several approvals, in a fixed number of queries. Other approvals are left out."""
    barred_approvals = CallApproval.objects.filter(pk__in=[approval.pk for approval in approvals]).barring(actor)
    barred_ids = set(barred_approvals.values_list("pk", flat=True))
    if not barred_ids:
        return {}
    person_origins = CallApprovalOrigin.objects.filter(
        approval__in=barred_ids, kind=OriginKind.PERSON, object_id__in=[actor.id]
    )
    roles = dict(person_origins.values_list("approval_id", "role"))
    agents = Identity.objects.handled_by(actor).filter(pk__in={approval.agent_id for approval in approvals})
    handled_ids = set(agents.values_list("pk", flat=True))
    return {
        approval.pk: _barred_message(actor, approval, roles.get(approval.pk), handled_ids)
        for approval in approvals
        if approval.pk in barred_ids
    }


def _barred_message(actor: Actor, approval: CallApproval, role: str | None, handled_ids: Collection[UUID]) -> str:
    if approval.agent_id in handled_ids or approval.owner_id == actor.id:
        return f"{approval.agent_name} is in your hands, so someone else must decide about its calls."
    why = WHY_BARRED.get(OriginRole(role), HANDLES_MEMBER) if role is not None else HANDLES_MEMBER
    return f"{why}, so someone else must decide about it."


def may_use_approval(approval: CallApproval, roots: CallRoots) -> bool:
    """Whether an approval is valid for this call. One by a person behind the call is valid only as break-glass."""
    return approval.break_glass or approval.decided_by_id not in roots.find_origins().people


def needs_superuser_message() -> str:
    """Return the message for a call that only a superuser may decide about."""
    return NEEDS_SUPERUSER.format(roles=" or ".join(sorted(rights.deciding_roles())))


def _save_origins(approval: CallApproval, trace: OriginTrace) -> None:
    rows = [
        *(_build_row(approval, OriginKind.PERSON, person, role) for person, role in trace.people.items()),
        *(_build_row(approval, OriginKind.IDENTITY, member) for member in trace.members),
        *(_build_row(approval, OriginKind.RUN, run) for run in trace.work.runs),
        *(_build_row(approval, OriginKind.TASK, task) for task in trace.work.tasks),
    ]
    CallApprovalOrigin.objects.bulk_create(rows, ignore_conflicts=True)
    _note_deciders(approval)


def _note_deciders(approval: CallApproval) -> None:
    """Store whether only a superuser can still decide. Roles may change while a call waits."""
    barred_people = approval.origins.filter(kind=OriginKind.PERSON).values("object_id")
    deciders = _deciders().exclude(pk__in=barred_people).exclude(pk__in=[approval.owner_id])
    needs_superuser = not deciders.exists()
    if needs_superuser != approval.needs_superuser:
        approval.needs_superuser = needs_superuser
        CallApproval.objects.filter(pk=approval.pk).update(needs_superuser=needs_superuser)


def _build_row(
    approval: CallApproval, kind: OriginKind, object_id: UUID, role: OriginRole = OriginRole.MEMBER
) -> CallApprovalOrigin:
    return CallApprovalOrigin(approval=approval, kind=kind, object_id=object_id, role=role)


def _deciders() -> QuerySet[User]:
    """Return people other than superusers who may decide about calls through a role or permission."""
    people: QuerySet[User] = User.objects.active().filter(_holds_right("mcp.decide_approval"), is_superuser=False)
    return people.exclude(_holds_right(READ_ONLY))


def _holds_right(right: str) -> Q:
    app, _, codename = right.partition(".")
    permissions = Permission.objects.filter(codename=codename, content_type__app_label=app)
    return Q(groups__permissions__in=permissions) | Q(user_permissions__in=permissions)


def _logged_roots(approval: CallApproval) -> CallRoots:
    """Build the roots from the log row of the first call, for an approval from before origins were recorded."""
    row = InvocationLog.objects.filter(pk=approval.pk).first()
    if row is None:
        return CallRoots.of_call(agent_id=approval.agent_id, callers=(), run_id=None, task_id=None)
    callers = [UUID(link["id"]) for link in row.chain]
    task_id = parse_uuid(row.task_id)
    return CallRoots.of_call(agent_id=approval.agent_id, callers=callers, run_id=row.execution_id, task_id=task_id)
