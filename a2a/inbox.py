"""An agent's own workers take its tasks: each is lent for a while, to one of them at a time."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any
from uuid import UUID

from django.db import transaction

from a2a import cancelling, given, parts, writer
from a2a.changes import Change, Made, Status
from a2a.choices import Role, RuntimeKind, TaskState
from a2a.models import Task
from a2a.wire.reading import Reader
from a2a.wire.v1 import requests as v1
from common import crypto
from common.db import clock
from common.errors import Conflict
from common.fastsql.compiled_queries import PreparedQuery
from nhi.actors import Actor
from nhi.validation import Problems

#: A task that was lent so often and never came back is given up.
MOST_CLAIMS = 5
LONGEST_LEASE = 3600
#: That one worker takes in one go.
MOST_AT_ONCE = 20
LONGEST_SAID = 4000
GIVEN_UP = "lease_lost"
REJECTED = "rejected"


class StaleLease(Conflict):
    """Another worker has the task by now, or nobody may work on it any more."""

    code = "stale_lease"


@dataclass(frozen=True)
class Claimed:
    task: Task
    lease_token: str
    #: All that was said in it, whole; it begins with what it is about.
    history: Sequence[parts.Message]

    @property
    def input(self) -> Any:
        """What it is about, without the protocol around it."""
        return parts.plain(self.history[0]["parts"])

    @property
    def message(self) -> parts.Message:
        """What its caller said last."""
        return next(said for said in reversed(self.history) if said["role"] == parts.role_of(Role.USER))


def waiting(actor: Actor) -> Any:
    """What the agent may take now, the oldest first."""
    return Task.objects.filter(agent_id=actor.id).within_run(actor.run_id).offered().order_by("created_at", "id")


def claim(*, task: Task, lease_seconds: int) -> Claimed:
    """Lend the task to who asks, until the lease ends."""
    _settle_claim(lease_seconds)
    with transaction.atomic():
        held = writer.locked(task.pk)
        if not held.is_offered:  # type: ignore[attr-defined]  # annotated by `lockable`
            raise _not_offered(held)
        return _lend(held, lease_seconds)


def claim_next(*, actor: Actor, lease_seconds: int, limit: int) -> list[Claimed]:
    """Lend the agent's oldest tasks that nobody works on, past those that somebody beside us is taking."""
    _settle_claim(lease_seconds, limit)
    assert actor.id is not None  # whoever asks at a door is somebody
    with transaction.atomic():
        return [_lend(held, lease_seconds) for held in _next(limit).fetch_all(agent=actor.id)]


def heartbeat(*, task: Task, lease_token: str) -> Task:
    with transaction.atomic():
        held = writer.locked(task.pk)
        _check(lease_token)(held)
        held.lease_until = _until(held)
        Task.objects.filter(pk=held.pk).update(lease_until=held.lease_until)
        return held


def progress(*, task: Task, lease_token: str, message: str = "") -> Task:
    """Say how it goes; that is a sign of life too."""
    _settle_text("message", message, most=LONGEST_SAID)
    said = parts.message_of_agent(message)
    working = Status(TaskState.WORKING, said)
    writer.prepare(working)
    with transaction.atomic():
        held = writer.locked(task.pk)
        _check(lease_token)(held)
        return writer.write(held, working, lease_until=_until(held))


def make(*, task: Task, lease_token: str, artifact: Mapping[str, Any], append: bool = False, last: bool = True) -> Task:
    """Hand over something that was made, or a piece of it; who follows the task has it at once."""
    made = Made(_read(v1.artifact, "artifact", artifact), append, last)
    writer.prepare(made)
    with transaction.atomic():
        held = writer.locked(task.pk)
        _check(lease_token)(held)
        return writer.write(held, made, lease_until=_until(held))


def ask(*, task: Task, lease_token: str, message: str, sign_in: bool = False) -> Task:
    """Ask the caller something. The lease ends with that; once answered, the task is offered again."""
    _settle_text("message", message, most=LONGEST_SAID)
    state = TaskState.AUTH_REQUIRED if sign_in else TaskState.INPUT_REQUIRED
    asked = Status(state, parts.message_of_agent(message))
    return writer.apply_event(task.pk, asked, check=_check(lease_token), lease_mark=None, lease_until=None)


def answer(*, task: Task, lease_token: str, message: Sequence[Mapping[str, Any]]) -> Task:
    """Complete the task by a message in place of anything made: a caller who waits is given just that."""
    said = parts.message(Role.AGENT, _read(v1.parts, "message", message))
    return writer.apply_event(
        task.pk, Status(TaskState.COMPLETED, said), check=_check(lease_token), is_answered=True
    )  # fmt: skip


def reject(*, task: Task, lease_token: str, message: str) -> Task:
    """Decline the task: it is nothing that this agent does."""
    _settle_text("message", message, most=writer.LONGEST_ERROR)
    said = Status(TaskState.REJECTED, parts.message_of_agent(message), REJECTED, message)
    done = writer.apply_event(task.pk, said, check=_check(lease_token))
    cancelling.cancel_within(done, f"the {done} was rejected")
    return done


def complete(*, task: Task, lease_token: str, result: Mapping[str, Any] | None) -> Task:
    made: list[Change] = [] if result is None else [Made(parts.artifact([parts.data(dict(result))]))]
    return writer.apply_event(task.pk, *made, Status(TaskState.COMPLETED), check=_check(lease_token))


def fail(*, task: Task, lease_token: str, error_code: str, error_message: str) -> Task:
    problems = Problems()
    problems.check_line("error_code", error_code, max_length=writer.LONGEST_CODE, required=True)
    problems.raise_if_any()
    _settle_text("error_message", error_message, most=writer.LONGEST_ERROR)
    said = parts.message_of_agent(error_message)
    failed = Status(TaskState.FAILED, said, error_code, error_message)
    done = writer.apply_event(task.pk, failed, check=_check(lease_token))
    cancelling.cancel_within(done, f"the {done} failed")
    return done


def _settle_claim(lease_seconds: int, limit: int = 1) -> None:
    problems = Problems()
    problems.unless(1 <= lease_seconds <= LONGEST_LEASE, "lease_seconds", f"Use 1 to {LONGEST_LEASE} seconds.")
    problems.unless(1 <= limit <= MOST_AT_ONCE, "limit", f"Use 1 to {MOST_AT_ONCE}.")
    problems.raise_if_any()


def _lend(held: Task, lease_seconds: int) -> Claimed:
    """Anew each time it is lent: then everybody who follows it sees that."""
    token, now = secrets.token_urlsafe(24), clock.parse_database_time(held.now)  # type: ignore[attr-defined]  # annotated by `lockable`
    writer.write(
        held,
        Status(TaskState.WORKING),
        lease_mark=crypto.fingerprint(token),
        lease_until=now + timedelta(seconds=lease_seconds),
        lease_seconds=lease_seconds,
        claims=held.claims + 1,
    )
    return Claimed(held, token, given.conversation(held))


@cache
def _next(most: int) -> PreparedQuery:
    """No more than are taken are locked: the rest are for who comes beside us."""
    rows = writer.lockable(skip_locked=True).offered().order_by("created_at", "id")
    return PreparedQuery(lambda agent: rows.filter(agent_id=agent)[:most], agent=UUID)


def _read(reading: Callable[[Reader, str, Any], Any], place: str, value: Any) -> Any:
    """What the protocol's own reader takes, with its problems told as this API tells them."""
    reader = Reader()
    found = reading(reader, place, value)
    problems = Problems()
    for where, said in reader.problems:
        problems.add(where, said)
    problems.raise_if_any()
    return found


def _settle_text(field: str, said: str, *, most: int) -> None:
    problems = Problems()
    problems.unless(len(said) <= most, field, f"Use at most {most} characters.")
    problems.raise_if_any()


def _check(lease_token: str) -> Callable[[Task], None]:
    """Whether the task is still with who shows the token. A lease that ended counts until another takes the task."""
    mark = crypto.fingerprint(lease_token)

    def check(task: Task) -> None:
        if not task.is_open:
            raise writer.ended(task)
        if task.lease_mark is None:
            raise StaleLease(f"No claim holds the {task} now. Nothing was changed.")
        if not crypto.is_equal_in_constant_time(bytes(task.lease_mark), mark):
            said = f"This lease token is not the one of the claim that holds the {task}. Nothing was changed."
            raise StaleLease(said)

    return check


def _until(task: Task) -> Any:
    return clock.parse_database_time(task.now) + timedelta(seconds=task.lease_seconds)  # type: ignore[attr-defined]  # annotated


def _not_offered(task: Task) -> Conflict:
    if not task.is_open:
        return writer.ended(task)
    if task.runtime_kind != RuntimeKind.INBOX:
        said = f"The {task} is not for an inbox: Gatehouse hands it on by itself."
        return Conflict(said, details={"reason": "not_for_inbox"})
    said = "another worker has it" if task.state == TaskState.WORKING else "it waits for its caller"
    return Conflict(f"The {task} cannot be taken now: {said}.", details={"reason": "claimed"})
