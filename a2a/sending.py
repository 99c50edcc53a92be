"""Sending a task: decided, written with its first event, and on record, all in one transaction."""

import hashlib
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

from a2a import (
    access,
    callback_urls,
    chains,
    covering,
    dispatching,
    news,
    origins,
    parts,
    pushing,
    waiting,
    webhooks,
    writer,
)
from a2a.access import Permit, Refused
from a2a.chains import Chain, ChainLink
from a2a.changes import Said, Status
from a2a.choices import Role, TaskState
from a2a.models import SentOnce, Task
from common import canonical_json, context
from common.db import clock
from common.errors import Conflict, NotAllowed, NotFound
from common.ids import uuid7
from nhi.actors import Actor
from nhi.audit import events, refusal_limits
from nhi.choices import Kind
from nhi.credentials import tokens
from nhi.models import Identity
from nhi.validation import Problems
from supervisor.access import Caller

LONGEST_KEY, LONGEST_TYPE, LONGEST_CONTEXT = 200, 200, 200
KEPT = timedelta(hours=24)
#: What is to be written about refusals once a transaction around them is undone; None outside of one.
_undone: ContextVar[list[Callable[[], None]] | None] = ContextVar("a2a_undone", default=None)
WAITING = frozenset({TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED})


class TakesNoMessage(Conflict):
    """The task is at work, and does not wait for anything."""

    code = "takes_no_message"


class KeyUsed(Conflict):
    """The same key came with another body, or its first sender is not done."""

    code = "idempotency_key_used"


@dataclass(frozen=True)
class Wish:
    """What a task is to be about."""

    message: parts.Message
    task_type: str = ""
    context_id: str = ""
    deadline: datetime | None = None
    parent_task_id: UUID | None = None
    source_agent_id: UUID | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    #: Where its end is told. Who asks the network about it does so before: here it is judged by its text.
    callback_url: str | None = None
    #: Who is told of every event, and in which version's words.
    push: Mapping[str, Any] | None = None
    wire_version: str = ""

    @cached_property
    def shown(self) -> parts.Message:
        """The message as it may be kept. To find what may not takes as long as the message is."""
        return dict(covering.shown(dict(self.message)))


def of_input(given: Mapping[str, Any]) -> dict[str, Any]:
    """The message of a task that is sent as plain data."""
    return parts.message(Role.USER, [parts.data(dict(given))])


def send(*, caller: Caller, target: Identity | None, wish: Wish) -> Task:
    """Write a task for `target`. Unknown agents and those that the caller may not know of are refused alike."""
    check(wish)
    if target is None or target.kind != Kind.AGENT:
        raise NotFound
    # What takes long in a large message is done before anything is locked.
    shown, source = wish.shown, None
    try:
        source = access.source_of(caller, wish.source_agent_id)
        with transaction.atomic():
            return _send(caller, source, target, wish, shown)
    except Refused as refused:
        _on_record(caller, source, target, wish, refused)
        raise refused.error from None


def say(*, caller: Caller, task: Task, message: parts.Message) -> Task:
    """Give a task what its agent asked for: from then on it is at work again, and an inbox offers it anew."""
    if not may_say(caller.actor, task):
        raise NotAllowed(f"You may not speak in the {task}: it is not yours.", details={"reason": "task_not_yours"})
    more = Said(message)
    writer.prepare(more)
    try:
        with transaction.atomic():
            held = writer.locked(task.pk)
            # An answer stands for no approval; to a question of the agent it is one, whatever else is waited for.
            if held.state not in WAITING or (held.state == TaskState.AUTH_REQUIRED and waiting.of(held) is not None):
                raise writer.ended(held) if not held.is_open else _not_waiting(held)
            access.require_still(caller=caller, task=held, given=parts.plain(message["parts"]))
            details = {**_in_run(caller), **_for_another(caller, held.source)}
            events.write("task.answered", actor=caller.actor, subject=held, details=details)
            done = writer.write(held, more, Status(TaskState.WORKING), **dispatching.anew(held))
            dispatching.announce(done)
            news.notifier.notify(held.agent_id)
            return done
    except Refused as refused:
        _on_record(caller, task.source, task.agent, Wish(message, task.task_type), refused)
        raise refused.error from None


def may_say(actor: Actor, task: Task) -> bool:
    """Whose task it is, and in an identity's name who manages it or may send for others."""
    return Task.objects.answerable_by(actor).filter(pk=task.pk).exists()


def once(*, caller: Caller, key: str, body: Any, sending: Callable[[], Task]) -> Task:
    """What was sent under this key within a day, else what `sending` sends now: who send it at once get one task."""
    problems = Problems()
    problems.unless(0 < len(key) <= LONGEST_KEY, "Idempotency-Key", f"Use 1 to {LONGEST_KEY} characters.")
    problems.unless(key.isascii() and key.isprintable(), "Idempotency-Key", "Use printable ASCII characters.")
    problems.unless(tokens.parse(key) is None, "Idempotency-Key", "This is a token; keys are kept, so send another.")
    problems.raise_if_any()
    mark = hashlib.sha256(canonical_json.encode(body)).hexdigest()
    found = _sent(caller, key)
    if found is None:
        try:
            return _first(caller, key, mark, sending)
        except IntegrityError:
            found = _sent(caller, key)
            if found is None:
                raise
    # A run is told nothing of a task that something else of its agent sent under the same key.
    if found.body_hash != mark or not Task.objects.within_run(caller.actor.run_id).filter(pk=found.task_id).exists():
        raise KeyUsed("This Idempotency-Key came with another body before; use a new one.")
    return found.task


def forget_keys(now: datetime) -> int:
    return SentOnce.objects.filter(at__lt=now - KEPT).delete()[0]


def check(wish: Wish) -> None:
    problems = Problems()
    problems.check_line("task_type", wish.task_type, max_length=LONGEST_TYPE)
    problems.check_line("context_id", wish.context_id, max_length=LONGEST_CONTEXT)
    problems.check_future("deadline", wish.deadline)
    if wish.callback_url is not None:
        callback_urls.check(problems, wish.callback_url)
    problems.raise_if_any()


def _send(caller: Caller, source: Identity | None, target: Identity, wish: Wish, shown: parts.Message) -> Task:
    chain = _chain(caller, source, wish)
    given = parts.plain(wish.message["parts"])
    permit = access.require(
        caller=caller, source=source, target=target, action=wish.task_type, given=given, chain=chain
    )  # fmt: skip
    access.require_room(chain)
    row = _row(caller, source, target, wish, chain, permit)
    dispatching.place(row)
    if wish.callback_url is not None:
        callback_urls.keep(row, wish.callback_url)
        webhooks.ensure(webhooks.owner_of(row), wish.callback_url, actor=caller.actor)
    task = writer.begin(row, wish.message, shown=shown)
    if wish.push is not None:
        pushing.make(actor=caller.actor, task=task, asked=wish.push, wire_version=wish.wire_version)
    details = {
        "task": str(task.pk),
        "type": task.task_type,
        **permit.by,
        **_in_run(caller),
        **_for_another(caller, source),
    }
    events.write("task.sent", actor=caller.actor, subject=task, details=details)
    dispatching.announce(task)
    news.notifier.notify(target.pk)
    return task


def _first(caller: Caller, key: str, mark: str, sending: Callable[[], Task]) -> Task:
    """What was refused is on record all the same: it is written once what it was a part of is undone."""
    refusals: list[Callable[[], None]] = []
    undone = _undone.set(refusals)
    try:
        with transaction.atomic():
            return _keep(caller, key, mark, sending())
    finally:
        _undone.reset(undone)
        for write in refusals:
            write()


def _not_waiting(task: Task) -> TakesNoMessage:
    said = f"The {task} is {TaskState(task.state).label.lower()} and waits for nothing. Send a task of its own."
    return TakesNoMessage(said, details={"state": task.word})


def _chain(caller: Caller, source: Identity | None, wish: Wish) -> Chain:
    actor = caller.actor
    me = ChainLink(source.pk, source.name) if source is not None else ChainLink(_id_of(caller), actor.name)
    own = source is None or source.pk == actor.id
    return chains.of(me, holder_id=me.id, parent_task_id=wish.parent_task_id, shown=caller.shown if own else None)


def _row(caller: Caller, source: Identity | None, target: Identity, wish: Wish, chain: Chain, permit: Permit) -> Task:
    actor, known, now = caller.actor, context.current_or_none(), permit.at or clock.database_now()
    return Task(
        agent=target,
        agent_name=target.name,
        source=source,
        created_by_kind=actor.kind,
        created_by_id=actor.id,
        created_by_name=actor.name,
        sent_by_run_id=actor.run_id,
        task_type=wish.task_type,
        context_id=wish.context_id or str(uuid7()),
        metadata=covering.shown(dict(wish.metadata)),
        state=TaskState.SUBMITTED,
        created_at=now,
        deadline=chain.deadline(wish.deadline),
        parent=chain.parent,
        permission_type=permit.permission_type,
        **chains.as_kept(chain.asks(delegates=permit.delegates)),
        grant_id=permit.grant_id,
        allowed_by=dict(permit.by),
        request_id=known.request_id if known else None,
    )


def _in_run(caller: Caller) -> dict[str, str]:
    """What the record says of a run that sends."""
    return {} if caller.actor.run_id is None else {origins.RUN: str(caller.actor.run_id)}


def _for_another(caller: Caller, source: Identity | None) -> dict[str, str]:
    """What the record says of who speaks for somebody else."""
    return {} if source is None or source.pk == caller.actor.id else {"in_the_name_of": source.name}


def _on_record(caller: Caller, source: Identity | None, target: Identity, wish: Wish, refused: Refused) -> None:
    def write() -> None:
        about = {**_in_run(caller), **_for_another(caller, source)}
        refusal_limits.write_limited_event(
            "task.refused",
            actor=caller.actor,
            subject=target,
            reason=refused.reason,
            details={"type": wish.task_type, **refused.details, **about},
        )

    later = _undone.get()
    if later is None:
        write()
    else:
        later.append(write)


def _sent(caller: Caller, key: str) -> SentOnce | None:
    since = clock.database_now() - KEPT
    found: SentOnce | None = SentOnce.objects.select_related("task").filter(caller_id=_id_of(caller), key=key).first()
    if found is not None and found.at < since:
        found.delete()
        return None
    return found


def _keep(caller: Caller, key: str, mark: str, task: Task) -> Task:
    SentOnce.objects.create(caller_id=_id_of(caller), key=key, body_hash=mark, task=task, at=task.created_at)
    return task


def _id_of(caller: Caller) -> UUID:
    assert caller.actor.id is not None  # whoever asks at a door is somebody
    return caller.actor.id
